"""From a model's name to its directory, and what a server has to know of it."""
