"""Documents, chunks and vectors: what is searched, on disk, and how files become it."""
