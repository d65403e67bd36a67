"""HTTP in front of a Server: endpoints that answer and embed, and one that says how it is."""
