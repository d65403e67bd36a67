"""KV leaves through page-locked memory and comes in one copy; the host stands in for both."""

import numpy as np
import pytest
import torch

from heddle.engines.llm.model import worker as worker_module
from heddle.engines.llm.model.transfers import Transfers
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import SlotLoad
from heddle.kv.page_store import KvBlock
from tests.helpers.tiny_models import tiny_model

CPU = torch.device("cpu")


class LockedMemory:
    """Says what was copied into it, and whether somebody has waited for that since."""

    def __init__(self):
        self.tensors, self.waits = [], 0

    def like(self, tensor):
        self.tensors.append(torch.full_like(tensor, float("nan")))
        return self.tensors[-1]

    def wait(self):
        assert not any(tensor.isnan().any() for tensor in self.tensors), "a copy wasn't begun"
        self.waits += 1


def block(tokens=10):
    return KvBlock(torch.randn(2, 2, tokens, 8), torch.randn(2, 2, tokens, 8))


def test_what_leaves_lies_in_locked_memory_once_its_copies_are_over():
    memory, sent = LockedMemory(), block()
    there = Transfers(CPU, memory).to_host(sent)
    assert memory.waits == 1
    assert [id(there.keys), id(there.values)] == [id(tensor) for tensor in memory.tensors]
    assert torch.equal(there.keys, sent.keys)
    assert torch.equal(there.values, sent.values)


@pytest.mark.parametrize(("first", "stop"), [(0, None), (0, 10), (3, 7), (3, None)])
def test_what_comes_is_a_whole_block_or_some_of_its_tokens(first, stop):
    sent = block()
    got = Transfers(CPU).to_device(sent, first, stop)
    assert torch.equal(got.keys, sent.keys[:, :, first:stop])
    assert torch.equal(got.values, sent.values[:, :, first:stop])
    if stop is None and not first:
        assert got.keys.data_ptr() == sent.keys.data_ptr(), "a CPU has it already"


def test_a_chunk_comes_as_it_left_into_any_runs_of_slots(monkeypatch):
    monkeypatch.setattr(worker_module, "Transfers", lambda place: Transfers(place, LockedMemory()))
    worker = TransformersWorker(tiny_model("llama"), slots=64)
    shape = worker.store.shape
    size = (shape.layers, shape.kv_heads, 12, shape.head_dim)
    sent = KvBlock(torch.randn(size), torch.randn(size))
    slots = np.array([50, 51, 3, 4, 5, 20, 21, 22])
    worker.load(SlotLoad(slots, sent, 2, 0))
    got = worker.export_kv(slots)
    assert torch.equal(got.keys, sent.keys[:, :, 2:10])
    assert torch.equal(got.values, sent.values[:, :, 2:10])
    worker.load(SlotLoad(slots, sent, 2, 5))
    back = worker.export_kv(slots, np.full(8, -5))
    torch.testing.assert_close(back.keys, got.keys, rtol=1e-5, atol=1e-5)
