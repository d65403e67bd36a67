"""How messages become bytes: between two processes of one machine, and between machines."""
