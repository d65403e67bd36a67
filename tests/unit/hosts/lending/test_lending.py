"""Lanes lend cores: who borrows from whom, and the byte by which both agree."""

import gc
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from heddle.core.errors import ConfigError
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.lending import lent_cores
from heddle.hosts.lending.idle_flag import IdleFlag
from heddle.hosts.lending.lent_cores import with_flags
from heddle.hosts.process import ProcessLane
from tests.helpers.echo_engine import KINDS, EchoSettings, admit
from tests.helpers.logged import logged
from tests.helpers.open_files import check_none_left, open_files
from tests.helpers.port_reader import PortReader
from tests.helpers.server_state import eventually

CORE = (min(os.sched_getaffinity(0)),)
SAYS_IDLE = """
import sys
from heddle.hosts.lending.idle_flag import IdleFlag
flag = IdleFlag.open(sys.argv[1])
assert not flag.is_idle()
flag.set(is_idle=True)
"""


def lane(name: str, cpus: tuple[int, ...] = (), **options: object) -> LaneSpec:
    settings = EchoSettings(step_sleep_s=0.3)
    engine = EngineSpec("echo", "tests.helpers.echo_engine:build", settings, 1, KINDS)
    return LaneSpec(name, (engine,), cpus, **options)  # type: ignore[arg-type]


def test_another_process_says_whether_its_lane_is_idle() -> None:
    before = open_files()
    flag = IdleFlag.make("search")
    subprocess.run([sys.executable, "-c", SAYS_IDLE, flag.path], check=True)
    assert flag.is_idle()
    flag.set(is_idle=False)
    assert not IdleFlag.open(flag.path).is_idle()
    path = flag.path
    del flag
    gc.collect()
    check_none_left(before)
    with pytest.raises(OSError, match="No such file"):
        IdleFlag.open(path)


def test_a_borrower_has_places_on_its_own_cores_first() -> None:
    used = sorted(os.sched_getaffinity(0))[:1]
    specs = lane("search", tuple(used)), lane("llm", tuple(used), threads=3, borrows="search")
    (lender, borrower), (flag,) = with_flags(specs)
    assert lender.idle_flag == borrower.borrowed_flag == flag.path
    assert (borrower.threads, borrower.borrowed_cpus) == (3, tuple(used))
    own = f"{{{used[0]}}}"
    assert ("OMP_PLACES", ",".join([own] * 4)) in borrower.environment
    assert (lender.environment, lender.cpus) == ((), tuple(used))


def test_lanes_lend_to_each_other_and_scans_have_threads_of_their_own() -> None:
    search = lane("search", CORE, borrows="llm", only_scans_borrow=True)
    (search, llm), flags = with_flags((search, lane("llm", CORE, borrows="search")))
    assert {flag.path for flag in flags} == {search.idle_flag, llm.idle_flag}
    assert (search.borrowed_flag, llm.borrowed_flag) == (llm.idle_flag, search.idle_flag)
    assert (search.cpus, search.borrowed_cpus, search.environment) == (CORE, CORE, ())


@pytest.mark.parametrize("borrows", ["", "search"])
def test_without_a_lender_that_has_cores_nothing_changes(borrows: str) -> None:
    specs = lane("search"), lane("llm", borrows=borrows)
    assert with_flags(specs) == (list(specs), [])


def test_a_lane_is_idle_until_it_has_work_and_after_it() -> None:
    (spec, _), (flag,) = with_flags((lane("search", CORE), lane("llm", CORE, borrows="search")))
    flag.set(is_idle=True)  # as a process that died may have left it
    with ProcessLane(spec, flags=(flag,)) as search:
        eventually(flag.is_idle)
        reader = PortReader(search.ports["echo"])
        reader.port.send(admit(1, "text"))
        eventually(lambda: not flag.is_idle())
        reader.endings(1)
        eventually(flag.is_idle)


def test_a_lane_that_starts_is_busy() -> None:
    (spec, _), (flag,) = with_flags((lane("search", CORE), lane("llm", CORE, borrows="search")))
    slow = EngineSpec("echo", "tests.helpers.echo_engine:build", EchoSettings(), 1, KINDS)
    flag.set(is_idle=True)
    failing = replace(slow, settings=EchoSettings(start_error="config"))
    with pytest.raises(ConfigError, match="nowhere"):
        ProcessLane(replace(spec, engines=(failing,)), flags=(flag,)).wait_ready()
    assert not flag.is_idle()


def test_a_lane_starts_without_a_flag_that_it_cannot_open() -> None:
    for field in ("idle_flag", "borrowed_flag"):
        with ProcessLane(replace(lane("search"), **{field: "/proc/self/fd/99999"})) as search:
            reader = PortReader(search.ports["echo"])
            reader.port.send(admit(1, "text"))
            reader.endings(1)


def test_where_the_system_refuses_memory_nothing_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    specs = lane("search", CORE), lane("llm", CORE, borrows="search")
    with logged(lent_cores.log) as lines:
        assert with_flags(specs) == (list(specs), [])
    assert "no cores are lent between lanes" in lines[0]
