"""Whether what a corpus stores is what was written to it."""
