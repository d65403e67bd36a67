"""Constrained decoding: which tokens may come next, so that a text gets its form."""
