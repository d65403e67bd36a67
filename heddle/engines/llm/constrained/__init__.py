"""Constrained decoding: which tokens may come next, so that a text is what it has to be."""
