"""Prompts that no template of a workflow makes."""
