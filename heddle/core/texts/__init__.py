"""Words and sentences of texts."""
