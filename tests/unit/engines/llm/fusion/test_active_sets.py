"""Any set of positions may be computed over reused KV: one step, or several; copied or shared."""

import hashlib

import numpy as np
import pytest
import torch

from benchmarks.llm_parity import RecordingWorker
from heddle.engines.llm.model.fused_layers import fuse_layers
from tests.helpers.fusion_oracle import FusionOracle
from tests.helpers.hand_row import HandRow, chunk_block, compute
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    TOLERANCE,
    ids_of,
    rel_diff,
    spans_of,
    stored_kv,
)
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

SLOTS = 3000
SHARED_FROM = 2000  # the slots in which the shared copies lie
OWN_FROM = 2400  # and those of what is computed beside them


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


def _active(chunks, generator, share):
    """Return what no chunk covers, and a random share of what the chunks cover."""
    is_active = generator.random(len(ids_of(chunks))) < share
    covered = slice(spans_of(chunks)[0].start, spans_of(chunks)[-1].stop)
    is_active[: covered.start] = is_active[covered.stop :] = True
    return np.flatnonzero(is_active)


def _copied(worker, chunks, first_slot=0, more=()):
    """Return a row with copies of its chunks, and `more` tokens behind its question."""
    ids = [*ids_of(chunks), *more]
    row = HandRow(ids, np.arange(first_slot, first_slot + len(ids)))
    for chunk, span in zip(chunks, spans_of(chunks), strict=True):
        _, block = chunk_block(worker, PREFIX, chunk, SHARED_FROM)
        row.copy_in(span.start, block, len(PREFIX))
    return row


def _shuffled(generator):
    return [CHUNKS[index] for index in generator.permutation(len(CHUNKS))]


@pytest.mark.parametrize("seed", range(3))
def test_any_active_set_equals_the_oracle_at_the_logits_and_in_every_layers_kv(model, seed):
    generator = np.random.default_rng(seed)
    worker = RecordingWorker(model, SLOTS)
    chunks = _shuffled(generator)
    row = _copied(worker, chunks)
    active = _active(chunks, generator, share=0.15 * (1 + 2 * seed))
    for places in np.array_split(active, 1 + seed):  # a chunked prefill, for the later seeds
        logits = compute(worker, [(row, places)])

    oracle = FusionOracle(model)
    expected, kv, _ = oracle.run(row.ids.tolist(), stored_kv(oracle, chunks), active)
    assert rel_diff(logits[0], expected[-1]) < TOLERANCE
    got, places = worker.export_kv(row.slots), torch.arange(len(row.ids))
    for layer in range(len(kv.keys)):
        turned = oracle.rotated(kv.keys[layer][None], places)[0]
        assert rel_diff(got.keys[layer], turned) < 10 * TOLERANCE  # turned there, not computed
        assert rel_diff(got.values[layer], kv.values[layer]) < TOLERANCE


def test_what_comes_after_a_sparse_prefill_equals_the_oracle_token_by_token(model):
    generator = np.random.default_rng(1)
    worker = RecordingWorker(model, SLOTS)
    chunks, more = _shuffled(generator), prompt(6, 5)
    row = _copied(worker, chunks, more=more)
    later = range(len(row.ids) - len(more), len(row.ids))
    active = _active(chunks, generator, share=0.3)
    compute(worker, [(row, active)])
    got = [compute(worker, [(row, np.array([place]))]) for place in later]

    oracle = FusionOracle(model)
    stored = stored_kv(oracle, chunks)
    expected, _, _ = oracle.run(row.ids.tolist(), stored, [*active, *later])
    assert rel_diff(torch.cat(got), expected[-len(more) :]) < TOLERANCE


@pytest.mark.parametrize("kind", [*FAMILIES, "llama fused", "qwen3 fused"])
def test_eight_rows_over_shared_chunks_equal_eight_with_copies_and_leave_every_byte(kind):
    """FusionRAG §4.3: one canonical copy, turned as it is read; what is computed lies apart."""
    model = tiny_model(kind.removesuffix(" fused"))
    if kind.endswith(" fused"):
        fuse_layers(model)
    generator = np.random.default_rng(0)
    worker = RecordingWorker(model, SLOTS)
    shared = {
        chunk: chunk_block(worker, PREFIX, chunk, SHARED_FROM + 100 * number)[0]
        for number, chunk in enumerate(CHUNKS, start=1)
    }
    slots = np.concatenate(list(shared.values()))
    before = _checksum(worker, slots)
    copies, sharers = [], []
    for number in range(8):
        chunks = _shuffled(generator)
        copied = _copied(worker, chunks, 200 * number)
        active = _active(chunks, generator, share=0.2)
        sharing = HandRow(copied.ids, copied.slots.copy())
        for chunk, span in zip(chunks, spans_of(chunks), strict=True):
            sharing.share(span.start, shared[chunk], len(PREFIX))
        sharing.own(active, OWN_FROM + 70 * number + np.arange(len(active)))
        copies.append((copied, active))
        sharers.append((sharing, active))
    assert rel_diff(compute(worker, sharers), compute(worker, copies)) < 10 * TOLERANCE
    assert _checksum(worker, slots) == before

    # The last token once more, alone: a query as decodes have it, over shared and own slots.
    for rows in (copies, sharers):
        rows[:] = [(row, active[-1:]) for row, active in rows]
    assert rel_diff(compute(worker, sharers), compute(worker, copies)) < 10 * TOLERANCE
    assert _checksum(worker, slots) == before


def _checksum(worker, slots):
    block = worker.export_kv(slots)
    return hashlib.sha256(block.keys.numpy().tobytes() + block.values.numpy().tobytes()).digest()
