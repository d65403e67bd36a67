"""Cores that one lane lends to another while it has nothing to do.

`lent_cores` says whose they are, and `idle_flag` is the byte by which both lanes agree.
`heddle.kernels.borrowed_threads` and `heddle.kernels.borrowed_cores` compute on them.
"""
