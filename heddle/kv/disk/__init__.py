"""Chunk KV on disk: one file an entry, its header, who writes it, and the tier as a whole."""
