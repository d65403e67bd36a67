"""A long run of mixed requests with KV reuse: `python -m tools.attacks.soak`.

After the warm-up the memory of all processes must stay, and so must descriptors and shared memory.
"""
