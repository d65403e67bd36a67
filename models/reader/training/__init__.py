"""Generates notes and questions, trains Heddle's small reader on them, measures and exports it."""
