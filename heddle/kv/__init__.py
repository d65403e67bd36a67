"""KV memory: pages, refcounts, rows and the exact prefix index (pure); the tensors apart."""
