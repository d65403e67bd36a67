"""What a step frees is there for the next one, without a page fault."""

import subprocess
import sys

import pytest

# In a process of its own: the setting holds for all of it.
SCRIPT = """
import resource
import sys
import numpy as np
from heddle.engines.llm.model.kept_memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if not keep_freed_memory():
    sys.exit(3)
for _ in range(2):
    before = faults()
    large = [np.ones(2 << 20) for _ in range(4)]  # 16 MiB each
    taken = faults() - before
    del large
print(taken)
"""


def test_memory_that_was_freed_is_taken_again_without_faults():
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    if ran.returncode == 3:
        pytest.skip("this system's allocator has no such setting")
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 100
