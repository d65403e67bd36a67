"""Fused prompts against an oracle that knows neither pages nor stored rotations."""

import threading

import pytest
import torch

from heddle.core.commands import Amend, AmendMode, Cancel
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from tests.helpers.fused_serving import EVERYTHING, FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

TOLERANCE = 5e-6
PREFIX = prompt(21, 0)
CHUNKS = [prompt(37, 1), prompt(18, 2), prompt(50, 3)]
QUESTION = prompt(9, 4)
ORDER = (2, 0, 1)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


def _rel_diff(got, expected):
    return float((got - expected).abs().max() / expected.abs().max())


def _served(model, **options):
    """An engine whose store knows every chunk right behind the prefix."""
    serving = FusedServing(model, **options)
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [chunk], prompt(3, 9)))
    return serving


def _fused_prompt():
    chunks = [CHUNKS[i] for i in ORDER]
    ids = [*PREFIX, *(t for chunk in chunks for t in chunk), *QUESTION]
    starts, position = [], len(PREFIX)
    for chunk in chunks:
        starts.append(position)
        position += len(chunk)
    return segments(PREFIX, chunks, QUESTION), ids, starts


def _oracle(model, selected=None):
    """Return the oracle, and the KV it reuses: each chunk's as computed behind the prefix."""
    oracle = FusionOracle(model)
    _, ids, starts = _fused_prompt()
    stored = [
        (start, oracle.chunk_kv(PREFIX, CHUNKS[i])) for start, i in zip(starts, ORDER, strict=True)
    ]
    return oracle, ids, stored


def _uncovered(ids, stored):
    covered = {p for start, kv in stored for p in range(start, start + kv.keys.shape[2])}
    return [p for p in range(len(ids)) if p not in covered]


def test_full_reuse_equals_the_oracle(model):
    serving = _served(model)
    fused, _, _ = _fused_prompt()
    logits = serving.ask(fused)

    oracle, ids, stored = _oracle(model)
    expected, _, _ = oracle.run(ids, stored)
    assert _rel_diff(logits, expected[-1]) < TOLERANCE
    assert _rel_diff(logits, oracle.run(ids)[0][-1]) > 1e-3, "reuse should not be exact here"


def test_ratio_one_equals_full_attention(model):
    serving = _served(model)
    fused, ids, _ = _fused_prompt()
    logits = serving.ask(fused, KvReuse(ReusePolicy.FUSIONRAG, 1.0))

    assert _rel_diff(logits, FusionOracle(model).run(ids)[0][-1]) < TOLERANCE


@pytest.mark.parametrize("step_tokens", [512, 19])
def test_the_question_selects_what_the_oracle_selects(model, step_tokens):
    serving = _served(model, step_tokens=step_tokens)
    fused, _, starts = _fused_prompt()
    logits = serving.ask(fused, KvReuse(ReusePolicy.FUSIONRAG, 0.3))

    oracle, ids, stored = _oracle(model)
    question = list(range(len(ids) - len(QUESTION), len(ids)))
    _, kv, queries = oracle.run(ids, stored, _uncovered(ids, stored))
    scores = {}
    for start, i in list(zip(starts, ORDER, strict=True))[1:]:  # the first is lossless
        positions = torch.arange(start, start + len(CHUNKS[i]))
        keys = oracle._rotate(kv.keys[-1][None][:, :, positions], positions)[0]
        keys = keys.repeat_interleave(queries.shape[0] // keys.shape[0], 0)
        last = queries[:, -len(question) :]
        scale = model.model.layers[0].self_attn.scaling
        weights = (last @ keys.transpose(1, 2) * scale).softmax(-1).sum((0, 1))
        scores.update(zip(positions.tolist(), weights.tolist(), strict=True))
    budget = int(0.3 * len(scores))
    selected = sorted(scores, key=lambda p: -scores[p])[:budget]
    active = sorted({*_uncovered(ids, stored), *selected})
    expected, _, _ = oracle.run(ids, stored, active)
    assert _rel_diff(logits, expected[-1]) < TOLERANCE
    fused = next(reversed(serving.prefilled.values())).fused
    assert fused.tokens_recomputed == budget
    assert fused.chunks == {"exact": 1, "canonical": 2}


def test_decoding_goes_on_as_the_oracle_does(model):
    serving = _served(model)
    fused, _, _ = _fused_prompt()
    serving.ask(fused, new_tokens=6)
    tokens = next(reversed(serving.tokens.values()))

    oracle, ids, stored = _oracle(model)
    for token in tokens:
        expected, _, _ = oracle.run(ids, stored)
        assert int(expected[-1].argmax()) == token
        ids = [*ids, token]


def test_a_missing_chunk_is_computed_and_found_the_next_time(model):
    serving = FusedServing(model)
    serving.ask(segments(PREFIX, [CHUNKS[0]], prompt(3, 9)))
    both = segments(PREFIX, [CHUNKS[0], CHUNKS[1]], QUESTION)
    logits = serving.ask(both)

    oracle = FusionOracle(model)
    ids = [*PREFIX, *CHUNKS[0], *CHUNKS[1], *QUESTION]
    assert _rel_diff(logits, oracle.run(ids)[0][-1]) < TOLERANCE, "only a lossless chunk was reused"
    assert next(reversed(serving.prefilled.values())).fused.chunks == {"exact": 1, "miss": 1}

    serving.ask(segments(PREFIX, [CHUNKS[2], CHUNKS[1]], QUESTION))
    assert next(reversed(serving.prefilled.values())).fused.chunks == {"miss": 1, "alias": 1}


def test_reuse_leaves_the_prefix_cache_exact(model):
    serving = _served(model)
    fused, ids, _ = _fused_prompt()
    serving.ask(fused, new_tokens=4)
    logits = serving.ask(fused, KvReuse())
    assert _rel_diff(logits, FusionOracle(model).run(ids)[0][-1]) < TOLERANCE


def _answered_from_disk(model, folder, damage=lambda file: None):
    """Store every chunk on disk, open it anew and answer; returns the serving and the request."""
    disk = {"directory": folder, "disk_bytes_max": 1 << 28}
    _served(model, **disk).engine.close()
    serving = FusedServing(model, **disk)
    for file in folder.rglob("*.safetensors"):
        damage(file)
    woken = threading.Event()
    serving.engine.subscribe(woken.set)
    number = serving.start(_fused_prompt()[0])
    while number not in serving.logits:
        assert woken.wait(10), "no load has ended"
        woken.clear()
        serving.drain()
    serving.engine.close()
    return serving, number


def test_chunks_on_disk_are_loaded_while_the_prompt_waits(model, tmp_path):
    serving, number = _answered_from_disk(model, tmp_path)
    oracle, ids, stored = _oracle(model)
    assert _rel_diff(serving.logits[number][0], oracle.run(ids, stored)[0][-1]) < TOLERANCE
    tokens = sum(len(chunk) for chunk in CHUNKS)
    assert serving.prefilled[number].fused.tokens_from_disk == tokens


def test_a_chunk_whose_file_is_broken_is_computed(model, tmp_path):
    serving, number = _answered_from_disk(
        model, tmp_path, damage=lambda file: file.write_bytes(file.read_bytes()[:-7])
    )
    _, ids, _ = _fused_prompt()
    assert _rel_diff(serving.logits[number][0], FusionOracle(model).run(ids)[0][-1]) < TOLERANCE
    assert serving.prefilled[number].fused.chunks == {"miss": 3}


def test_a_prompt_cancelled_while_loading_gives_everything_back(model, tmp_path):
    disk = {"directory": tmp_path, "disk_bytes_max": 1 << 28}
    _served(model, **disk).engine.close()
    serving = FusedServing(model, **disk)
    number = serving.start(_fused_prompt()[0])
    serving.engine.apply(Cancel(number))
    serving.drain()
    serving.engine.check()
    assert serving.logits == {}
    serving.engine.close()
    assert serving.store.stats().entries == 3


def test_requests_together_answer_as_alone(model):
    serving = _served(model, step_tokens=64)
    fused, _, _ = _fused_prompt()
    some = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
    alone = serving.ask(fused, some)
    numbers = [serving.start(fused, some, 3), serving.start(fused, EVERYTHING, 3)]
    numbers += [serving.start(fused, KvReuse(ReusePolicy.EPIC, 0.2), 3)]
    numbers += [serving.start(segments(PREFIX, [], prompt(70, 8)), KvReuse(), 3)]
    serving.drain()
    assert _rel_diff(serving.logits[numbers[0]][0], alone) < TOLERANCE
    assert all(len(serving.logits[number]) == 3 for number in numbers)


def test_a_prompt_amended_after_its_fusion_publishes_nothing_approximate(model):
    serving = _served(model)
    fused, ids, _ = _fused_prompt()
    number = serving.start(fused, decodes=False)
    serving.drain()
    more = prompt(33, 7)
    serving.engine.apply(Amend(number, 0, more, AmendMode.APPEND))
    serving.decode(number, 1)
    serving.drain()
    logits = serving.ask(segments(ids, [], more), KvReuse())
    expected = FusionOracle(model).run([*ids, *more])[0][-1]
    assert _rel_diff(logits, expected) < TOLERANCE
