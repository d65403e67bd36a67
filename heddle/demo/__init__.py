"""The corpus that ships with Heddle: the archive of an invented town, with questions."""
