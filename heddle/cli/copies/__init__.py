"""The commands that copy a corpus and put a copy back."""
