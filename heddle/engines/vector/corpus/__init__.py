"""What an index follows: the corpus, its scopes and words, and what waits to be stored."""
