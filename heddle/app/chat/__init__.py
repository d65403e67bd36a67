"""Conversations: what was said, and questions that need it."""
