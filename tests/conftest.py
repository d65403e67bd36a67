"""Without a GPU, Triton's kernels are run by its interpreter."""

import os

from heddle.hosts.machine import read_machine

# Triton reads this when it is first imported, which some test modules do at their top.
if not read_machine().gpus:
    os.environ.setdefault("TRITON_INTERPRET", "1")
