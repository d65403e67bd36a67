"""Heddle under other frameworks: they drive, and their calls are scheduled together."""
