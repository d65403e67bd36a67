"""A corpus in a directory: one SQLite file."""
