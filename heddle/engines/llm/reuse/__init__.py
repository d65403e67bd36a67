"""KV reuse around the engine: which chunks' KV a prompt finds, and how it is computed ahead."""
