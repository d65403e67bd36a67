"""Runs Triton's kernels in its interpreter where no GPU is; lets CI miss no needed tool."""

import os

from heddle.hosts.machine import read_machine
from tests.helpers.needed_tools import (
    pytest_make_collect_report,
    pytest_runtest_makereport,
)

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

# Triton reads this when it is first imported, which some test modules do at their top.
if not read_machine().gpus:
    os.environ.setdefault("TRITON_INTERPRET", "1")
