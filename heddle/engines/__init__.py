"""Engines: each folder is a stranger to the others; all of them step."""
