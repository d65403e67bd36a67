"""The server that already runs on a corpus: how it is found, and asked."""
