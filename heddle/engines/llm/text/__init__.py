"""Text to tokens and back: chat templates, prompts, and text while it is generated."""
