"""What parts make of their measurements; the dry day runs them whole."""

import importlib

import numpy as np
import pytest
import torch

from benchmarks.gpu.step_curves import knee
from benchmarks.gpu.unit_tests import counted
from benchmarks.support.gpu_graph import neighbours_on
from heddle.engines.vector.graph.knn import NO_CLUSTER
from tools.gpu_day.parts import PARTS


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_function_of_each_part_is_there(part):
    module, _, name = part.function.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_knee_is_the_shortest_prompt_that_is_nearly_as_fast_as_any():
    assert knee({16: 10.0, 64: 89.0, 256: 91.0, 1024: 100.0}) == 256


def test_tests_are_counted_by_the_last_line_of_pytest():
    output = "F.\nFAILED test.py::a - 3 passed\n1 failed, 12 passed, 2 skipped in 1.20s\n"
    assert counted(output) == {"failed": 1, "passed": 12, "skipped": 2}
    assert counted("") == {}


def test_a_device_finds_the_neighbours_that_a_graph_is_built_from(monkeypatch):
    monkeypatch.setattr("benchmarks.support.gpu_graph.SCANNED_TOGETHER", 7)
    drawn = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    drawn[3] = drawn[11]  # the nearest of either is the other, as near as itself
    exact = ((drawn[:, None] - drawn[None]) ** 2).sum(axis=2)
    np.fill_diagonal(exact, np.inf)
    find = neighbours_on(torch.device("cpu"))
    found = list(find(drawn, drawn[:1], np.zeros(20, np.int64), 5, 1))
    rows = np.concatenate([part.rows for part in found])
    assert np.concatenate([part.of for part in found]).tolist() == list(range(20))
    assert (rows != np.arange(20)[:, None]).all()
    expected = np.sort(exact, axis=1)[:, :5]
    np.testing.assert_allclose(np.take_along_axis(exact, rows, axis=1), expected, atol=1e-5)
    distances = np.concatenate([part.distances for part in found])
    np.testing.assert_allclose(distances, expected, atol=1e-5)
    lists = np.where(np.arange(20) < 2, NO_CLUSTER, 0)
    [*found] = find(drawn, drawn[:1], lists, 17, 1)
    assert np.concatenate([part.of for part in found]).tolist() == list(range(2, 20))
    assert np.concatenate([part.rows for part in found]).min() == 2
