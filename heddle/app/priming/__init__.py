"""Priming: every chunk's KV computed ahead, for KV reuse, and where it lies on disk."""
