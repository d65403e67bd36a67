"""Attacks on running servers: `fuzz` sends bad input, `soak` runs long, `chaos` breaks parts.

Each starts and stops its own `heddle serve` processes over a small corpus and a tiny model.
"""
