"""An engine whose attention is the kernel answers as one whose attention is torch's."""

import copy

import numpy as np
import pytest
import torch

from benchmarks.llm_parity import RecordingWorker
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.attention import context as attention
from heddle.engines.llm.attention.choice import TORCH, TRITON
from heddle.engines.llm.build import LlmSettings, assemble
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.hand_row import HandRow, chunk_block, compute
from tests.helpers.tiny_models import prompt, tiny_model

pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
PREFIX = prompt(9, 0)
CHUNKS = [prompt(23, 1), prompt(18, 2)]
QUESTION = prompt(6, 4)


def _rel_diff(got, expected):
    return float((got - expected).abs().max() / expected.abs().max())


def _steps(worker):
    """Run a shared chunk, turned, in a row with gaps beside a plain prompt; then both decode."""
    slots, _ = chunk_block(worker, PREFIX, CHUNKS[0], slot=100)
    ids = [*PREFIX, *CHUNKS[1], *CHUNKS[0], *QUESTION, 7]
    shared = HandRow(ids, np.arange(300, 300 + len(ids)))
    start = len(PREFIX) + len(CHUNKS[1])
    shared.share(start, slots, len(PREFIX))
    plain = HandRow(prompt(12, 5), np.arange(12))
    computed = [*range(start), *range(start + len(slots), len(ids) - 1)]
    first = compute(worker, [(shared, computed), (plain, range(11))])
    return torch.cat([first, compute(worker, [(shared, [len(ids) - 1]), (plain, [11])])])


@pytest.mark.parametrize("family", ["llama", "qwen3-yarn", "glm4", "phi3"])
def test_rows_of_a_step(family):
    """Queries are turned in the family's own way: in halves, scaled, interleaved and in part."""
    model = tiny_model(family)
    expected = _steps(RecordingWorker(copy.deepcopy(model), 512))
    got = _steps(RecordingWorker(model, 512, attention=TRITON))
    assert _rel_diff(got, expected) < 1e-5


@pytest.mark.parametrize(
    "policy", [ReusePolicy.FUSIONRAG, ReusePolicy.CACHEBLEND, ReusePolicy.CACHECRAFT]
)
def test_fused_prompts_beside_plain_ones(policy):
    model = tiny_model("llama", num_hidden_layers=2)
    found = []
    for way in (TORCH, TRITON):
        serving = FusedServing(copy.deepcopy(model), attention=way)
        for chunk in CHUNKS:
            serving.ask(segments(PREFIX, [chunk], prompt(3, 9)))
        fused = segments(PREFIX, CHUNKS[::-1], QUESTION)
        numbers = [
            serving.start(fused, KvReuse(policy, 0.3), new_tokens=2),
            serving.start(segments(prompt(20, 7), (), QUESTION), KvReuse(), new_tokens=2),
        ]
        serving.drain()
        found.append([serving.logits[number] for number in numbers])
        fused = serving.prefilled[numbers[0]].fused
        assert fused.tokens_recomputed > 0
        assert (fused.tokens_shared > 0) == (policy is not ReusePolicy.CACHEBLEND)
    for expected, got in zip(*found, strict=True):
        assert _rel_diff(torch.stack(got), torch.stack(expected)) < 1e-5


def test_requests_at_once_hold_each_chunk_once():
    serving = FusedServing(tiny_model("llama", num_hidden_layers=1), attention=TRITON)
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [prompt(5, 5), chunk], prompt(3, 9)))
    orders = [CHUNKS, CHUNKS[::-1]]
    reuse = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
    numbers = [
        serving.start(segments(PREFIX, order, QUESTION), reuse, decodes=False) for order in orders
    ]
    serving.drain()
    rows = [sequence.row for sequence in serving.engine.sequences if sequence.id in numbers]
    pages = [{page for span in row.spans for page in span.pages.pages} for row in rows]
    assert pages[0] == pages[1]
    ledger = serving.engine.scheduler.kv_cache.ledger
    assert [ledger.refcount(page) for page in pages[0]] == [2] * len(pages[0])


def test_an_engine_compiles_every_kind_of_launch_before_it_is_ready(caplog, monkeypatch):
    tilings = []
    run = attention.attend_ragged

    def spy(plan, *others):
        tilings.extend((launch.tiling.lines, launch.parts > 0) for launch in plan.launches)
        return run(plan, *others)

    monkeypatch.setattr(attention, "attend_ragged", spy)
    model = tiny_model("llama", num_hidden_layers=1)
    # of this logger: a command that ran before in the same process has raised its level
    caplog.set_level("INFO", logger="heddle")
    assemble("llm", 1, LlmSettings("unused", attention="triton"), model, "tiny", None)
    assert set(tilings) == {(16, False), (16, True), (64, True)}
    assert "attention is computed by triton" in caplog.text
