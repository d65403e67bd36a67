"""Answers that another server writes: prompts as text, events, tries, and the engine's port."""
