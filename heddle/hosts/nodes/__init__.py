"""Lanes on other machines: an agent on each node starts them, their frames come over TCP."""
