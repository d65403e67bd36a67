"""Text generation: continuous batching over transformers modules and our own KV pages."""
