"""Documents enter a corpus that is served: they are stored, and their chunks get vectors."""
