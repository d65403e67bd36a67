"""Training of the multi-hop adapter: SmolLM2 taught to answer from several passages, briefly."""
