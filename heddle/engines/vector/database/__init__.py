"""Searches that the corpus's own database carries out."""
