"""What every test needs of the process that it runs in."""

import gc
import os
import signal

from hypothesis import HealthCheck, settings

from heddle.hosts.machine import read_machine
from tests.helpers.needed_tools import (
    pytest_make_collect_report,
    pytest_runtest_makereport,
)

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

# A script that starts the suite in the background has it ignore Ctrl-C, and `nohup` SIGHUP.
# Children inherit that: those that a test interrupts would never end.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Haystack would send each pipeline's description to its makers.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

# A busy machine is no failure: no example has to end within 200 ms, or to be drawn within a second.
settings.register_profile("heddle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("heddle")

# Without a GPU, Triton's kernels are run by its interpreter. Triton reads this when it is first
# imported, which some test modules do at their top.
if not read_machine().gpus:
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_finish() -> None:
    """Have Python look for garbage among what the tests make only.

    A server that was closed is a cycle of few objects with much memory. Beside the objects of all
    modules, which stay, Python would look for it so rarely that a process grows to seven gigabytes.
    """
    gc.collect()
    gc.freeze()
