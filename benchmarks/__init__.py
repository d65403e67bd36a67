"""Benchmarks: one module for each `heddle bench NAME`, with `run(quick, seed)`."""
