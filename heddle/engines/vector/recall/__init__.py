"""Recall measured by running searches again exactly, for any kind of index."""
