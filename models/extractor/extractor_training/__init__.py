"""Training of the extractor: MiniLM taught to point at the words that answer a question."""
