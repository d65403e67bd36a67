"""Memory bound to a node for a block, by the kernel's own account; refusals in words."""

import errno
import os
from pathlib import Path

import pytest

from heddle.hosts.numa import memory_policy as module
from heddle.hosts.numa.memory_policy import NODES_MAX, binding_problem, memory_on

is_refused = bool(binding_problem())


def policies() -> set[str]:
    lines = Path(f"/proc/{os.getpid()}/numa_maps").read_text(encoding="ascii").splitlines()
    return {line.split()[1] for line in lines}


@pytest.mark.skipif(is_refused, reason="memory policies are refused here")
def test_memory_is_bound_for_the_block_and_a_block_within_gives_it_back() -> None:
    with memory_on(0) as problem:
        assert problem == ""
        with memory_on(0):
            pass
        assert "bind:0" in policies()
    assert "bind:0" not in policies()


def test_a_node_that_is_not_there_is_told_and_changes_nothing() -> None:
    with memory_on(NODES_MAX - 1) as problem:
        assert problem.startswith("the system refuses set_mempolicy (E")


def test_a_system_that_forbids_the_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(module, "_call", forbid)
    assert binding_problem() == (
        "the system refuses set_mempolicy (EPERM: Operation not permitted)"
    )


def test_another_processor_needs_libnuma(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "none")
    monkeypatch.setattr(module, "LIBNUMA", "libno-such-numa.so.1")
    assert binding_problem().startswith("libnuma can't be loaded: libno-such-numa.so.1")
