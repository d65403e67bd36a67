"""How bytes reach a client."""
