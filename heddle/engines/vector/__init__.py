"""Vector search in steps over an inverted file, and the index file that is derived for it."""
