"""Compiled loops over vectors."""
