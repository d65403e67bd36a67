import pytest

from benchmarks.virtual.calibration import Check
from benchmarks.virtual.cells import Cell, x_p50, x_p99
from benchmarks.virtual.corpora import refuse
from heddle.core.errors import InternalError


def cell(contender, p50_s, p99_s=(1.0, 1.0, 1.0)):
    return Cell("heavy", "five", 0.8, contender, 10, p50_s, p99_s, {})


def test_a_machine_within_the_bound_passes(capsys) -> None:
    refuse([Check("heavy", "heddle", 1.0, 1.149), Check("heavy", "heddle", 1.0, 0.851)])
    assert "+15%" in capsys.readouterr().out


@pytest.mark.parametrize("virtual_s", [1.16, 0.84])
def test_one_beyond_it_fails_the_run_and_is_named(virtual_s) -> None:
    checks = [Check("light", "heddle", 1.0, 1.0), Check("heavy", "asyncio_same", 1.0, virtual_s)]
    with pytest.raises(InternalError, match="heavy asyncio_same"):
        refuse(checks)


def test_ratios_are_paired_by_seed() -> None:
    own, other = cell("heddle", (1.0, 2.0, 4.0)), cell("asyncio_fifo", (2.0, 2.0, 12.0))
    assert x_p50(own, other) == 2.0
    assert x_p99(own, other) == 1.0
