"""The files under a corpus directory that are derived from it."""
