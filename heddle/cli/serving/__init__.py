"""Serving to assistants, and what belongs to serving alone."""
