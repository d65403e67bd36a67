"""The documented calls of clients that people have, made as their own pages write them.

`benchmarks/clients.py` counts them, and `tests/end_to_end/test_clients.py` holds each of them.
"""
