"""Which tiles fit which GPU."""

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.llm.attention.tilings import TILINGS, Gpu, tiling_problem, tilings_for

H100, B200, A100 = Gpu(227 << 10, 9), Gpu(227 << 10, 10), Gpu(163 << 10, 8)
L4, RTX_5090, T4 = Gpu(99 << 10, 8), Gpu(99 << 10, 12), Gpu(64 << 10, 7)


@pytest.mark.parametrize(
    ("gpu", "itemsize", "lines", "keys"),
    [
        (H100, 2, 128, 128),
        (Gpu(231_424, 9), 2, 128, 128),
        (Gpu(231_423, 9), 2, 128, 64),
        (B200, 2, 128, 64),
        (A100, 2, 128, 64),
        (L4, 2, 128, 64),
        (RTX_5090, 2, 128, 64),
        (Gpu(99_328, 8), 2, 128, 64),
        (None, 2, 128, 64),
        (H100, 4, 64, 16),
        (L4, 4, 64, 16),
        (None, 4, 64, 16),
    ],
)
def test_long_rows_take_the_largest_tiles_that_fit(gpu, itemsize, lines, keys):
    found = tilings_for(gpu, itemsize)
    assert (found.large.lines, found.large.keys) == (lines, keys)
    assert (found.large_shared.lines, found.large_shared.keys) == (lines, min(keys, 64))
    assert tiling_problem(gpu, itemsize) == ""


@pytest.mark.parametrize(("itemsize", "keys"), [(2, 64), (4, 32)])
@pytest.mark.parametrize("gpu", [H100, L4, None])
def test_decodes_take_the_same_tiles_on_every_gpu(gpu, itemsize, keys):
    small = tilings_for(gpu, itemsize).small
    assert (small.lines, small.keys) == (16, keys)


@pytest.mark.parametrize(("itemsize", "needed_kib"), [(2, 97), (4, 75)])
def test_on_a_gpu_with_too_little_the_error_names_the_fix(itemsize, needed_kib):
    problem = tiling_problem(T4, itemsize)
    assert "64 KiB" in problem
    assert f"takes {needed_kib} KiB" in problem
    with pytest.raises(ConfigError, match="use attention torch"):
        tilings_for(T4, itemsize)


@pytest.mark.parametrize("itemsize", TILINGS)
def test_the_table_begins_with_what_needs_most(itemsize):
    needed = [one.shared_bytes for one in TILINGS[itemsize]]
    assert needed == sorted(needed, reverse=True)
