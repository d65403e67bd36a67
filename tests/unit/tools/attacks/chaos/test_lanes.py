"""Lanes are known by the command lines of their processes."""

import sys

from tools.attacks.chaos.lanes import lane_name

BOOT = "import sys; from heddle.hosts.lane_main import main; main()"


def test_the_name_stands_after_the_entry_and_its_descriptor() -> None:
    words = [sys.executable, "-P", "-c", BOOT, "7", "llm-decode-0", "/a/path"]
    assert lane_name(words) == "llm-decode-0"


def test_other_processes_are_no_lanes() -> None:
    assert lane_name([]) == ""
    assert lane_name([sys.executable, "-m", "multiprocessing.resource_tracker"]) == ""
    assert lane_name([sys.executable, "-c", BOOT]) == ""
