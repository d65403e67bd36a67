"""The embedding engine: texts to vectors, in batches sorted by length under a token budget."""
