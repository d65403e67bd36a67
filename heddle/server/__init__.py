"""HTTP in front of a Server: one endpoint that answers, one that says how it is."""
