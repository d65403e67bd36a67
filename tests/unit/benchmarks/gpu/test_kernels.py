"""Wrong kernels are named, and end no other case."""

import math

import pytest
import torch

from benchmarks.gpu import kernels
from benchmarks.gpu.place import Place
from heddle.core.errors import ConfigError, InternalError

PLACE = Place(torch.device("cpu"), torch.float32, True)


def test_a_wrong_and_a_failing_kernel_are_named_beside_right_ones(monkeypatch):
    def half(plan, store, layer, query, scaling):
        if store.shape.head_dim == 24:
            raise RuntimeError("out of\nregisters")
        return query.new_zeros(query.shape[1], query.shape[0], query.shape[2])

    monkeypatch.setattr(kernels, "attend_ragged", half)
    monkeypatch.setattr(kernels.BlockTier, "kernel_distances", lambda *_: torch.tensor(math.nan))
    monkeypatch.setattr(kernels, "extend_by_kernel", kernels.reference.extend)
    rows = []
    with pytest.raises(InternalError, match=r"8 of 10 cases are wrong: prompt: error 1,"):
        kernels.check(PLACE, rows.append)
    problems = {row["case"]: row["problem"] for row in rows}
    assert problems["heads of 24"] == "RuntimeError: out of\nregisters"
    assert problems["blocks, half"] == "error nan, allowed 1e-05"
    assert problems["graph, 1 parents"] == ""
    assert problems["turned keys, torch.float32"].startswith("error 1,")


def test_turned_keys_of_the_oracle_keep_the_distances():
    rotation = kernels.HalvesRotation()
    keys = torch.randn(3, 5, 16, dtype=torch.float64)
    there, back = torch.empty_like(keys), torch.empty_like(keys)
    rotation.rotate(keys, 37, there)
    rotation.rotate(there, -37, back)
    torch.testing.assert_close(back, keys)
    assert not torch.allclose(there, keys)


def test_a_place_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="finds no GPU; try GPU=interpret"):
        Place.find("cuda")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ConfigError, match="TRITON_INTERPRET=1"):
        Place.find("interpret")
