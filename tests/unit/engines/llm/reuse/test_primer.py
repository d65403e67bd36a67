"""A chunk's KV, computed after its neighbours' and stored: its content and its time."""

import copy
import os
from dataclasses import replace

import pytest
import torch

from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Failed
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import PrimePayload, Segment, SegmentRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Primed
from heddle.core.tasks import Identity, Task
from heddle.engines.llm.reuse.primer import fitting
from heddle.kv.chunk_directory import Fetch
from heddle.kv.chunk_key import PromptKeys
from tests.helpers.fused_serving import EVERYTHING, FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle, PlainKv
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

TOLERANCE = 5e-6
PREFIX = prompt(21, 0)
CHUNK, *NEIGHBOURS = [prompt(37, 1), prompt(18, 2), prompt(50, 3), prompt(29, 4)]
OTHER = prompt(33, 5)
QUESTION = prompt(9, 6)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


@pytest.fixture(scope="module")
def llama():
    return tiny_model("llama")


@pytest.fixture
def serve(tmp_path):
    """Make servings whose stores lie in one folder; they are closed at the end."""
    opened = []

    def make(model, folder="kv", **options):
        disk = {"directory": tmp_path / folder, "disk_bytes_max": 1 << 28}
        opened.append(FusedServing(model, **{**disk, **options}))
        return opened[-1]

    yield make
    for serving in opened:
        serving.engine.close()
        serving.store.close()  # an engine without reuse knows nothing of it


def priming(neighbours, chunk, prefix=PREFIX):
    return segments(prefix, [*neighbours, chunk], ())[:-1]


def rel_diff(got, expected):
    return float((got - expected).abs().max() / expected.abs().max())


def keys_of(chunks, salt=""):
    keys = PromptKeys("tiny", salt, PREFIX)
    for chunk in chunks:
        keys.append(chunk)
    return keys


def stored(serving, record):
    """Return an entry of a serving's store, read from disk."""
    entry = serving.store.fetch(record.key)
    assert not isinstance(entry, Fetch), "an entry just stored is in host memory"
    serving.store.release(record.key)
    assert entry.record == record
    return entry


def primed_with(serving, chunks):
    """Have the last of some chunks primed on top of the others' raw KV; return what is stored."""
    for neighbour in chunks[:-1]:
        serving.prime(priming([], neighbour))
    *neighbours, chunk = chunks
    assert serving.prime(priming(neighbours, chunk)) == Primed(len(chunk), len(neighbours), True)
    start = len(PREFIX) + sum(map(len, neighbours))
    return stored(serving, keys_of(chunks).primed_record(len(neighbours), start))


def oracle_of(model, neighbours):
    """Return the oracle's KV of CHUNK behind its neighbours' KV, each computed on its own."""
    oracle = FusionOracle(model)
    ids, others = list(PREFIX), []
    for neighbour in neighbours:
        others.append((len(ids), oracle.chunk_kv(PREFIX, neighbour)))
        ids += neighbour
    start = len(ids)
    _, kv, _ = oracle.run([*ids, *CHUNK], others)
    return oracle, PlainKv(kv.keys[:, :, start:], kv.values[:, :, start:])


# --- what is stored --------------------------------------------------------------------------


def test_without_neighbours_it_is_the_raw_kv_of_any_prompt(llama, serve):
    serving, asked = serve(llama, "primed"), serve(llama, "asked")
    assert serving.prime(priming([], CHUNK)) == Primed(len(CHUNK), 0, True)
    asked.ask(segments(PREFIX, [CHUNK], QUESTION))
    record = keys_of([CHUNK]).canonical_record(0, len(PREFIX))
    ours, theirs = stored(serving, record), stored(asked, record)
    assert rel_diff(ours.block.keys, theirs.block.keys) < TOLERANCE
    assert rel_diff(ours.block.values, theirs.block.values) < TOLERANCE


def test_behind_one_neighbour_it_is_what_full_attention_gives(model, serve):
    entry = primed_with(serve(model), [NEIGHBOURS[0], CHUNK])
    oracle = FusionOracle(model)
    start = len(PREFIX) + len(NEIGHBOURS[0])
    _, kv, _ = oracle.run([*PREFIX, *NEIGHBOURS[0], *CHUNK])
    assert rel_diff(entry.block.values, kv.values[:, :, start:]) < TOLERANCE
    positions = torch.arange(start, start + len(CHUNK))
    for layer, keys in enumerate(kv.keys):
        turned = oracle.rotated(keys[None, :, start:], positions)[0]
        assert rel_diff(entry.block.keys[layer], turned) < TOLERANCE


def test_in_bfloat16_it_keeps_to_its_rounding(serve):
    rounded = tiny_model("qwen3").to(torch.bfloat16)
    exact = copy.deepcopy(rounded).float()
    entry = primed_with(serve(rounded), [*NEIGHBOURS, CHUNK])
    assert entry.block.values.dtype is torch.bfloat16
    assert rel_diff(entry.block.values.float(), oracle_of(exact, NEIGHBOURS)[1].values) < 4e-2


def test_behind_several_it_has_seen_the_raw_kv_of_each(model, serve):
    entry = primed_with(serve(model), [*NEIGHBOURS, CHUNK])
    _, kv = oracle_of(model, NEIGHBOURS)
    assert rel_diff(entry.block.values, kv.values) < TOLERANCE
    exact = FusionOracle(model).run([*PREFIX, *(t for n in NEIGHBOURS for t in n), *CHUNK])[1]
    assert rel_diff(entry.block.values, exact.values[:, :, -len(CHUNK) :]) > 1e-3


def test_the_first_chunk_of_a_prompt_is_computed_where_only_primed_kv_is_stored(llama, serve):
    serving = serve(llama)
    primed_with(serving, [NEIGHBOURS[0], CHUNK])
    logits = serving.ask(segments(PREFIX, [CHUNK], QUESTION))
    full = FusionOracle(llama).run([*PREFIX, *CHUNK, *QUESTION])[0][-1]
    assert rel_diff(logits, full) < TOLERANCE
    assert next(reversed(serving.prefilled.values())).fused.chunks == {"miss": 1}


def test_neighbours_are_seen_raw_also_where_they_are_primed(llama, serve):
    serving = serve(llama)
    first, second = NEIGHBOURS[:2]
    primed_with(serving, [first, second])
    entry = primed_with(serving, [first, second, CHUNK])
    _, kv = oracle_of(llama, [first, second])
    assert rel_diff(entry.block.values, kv.values) < TOLERANCE


def test_neighbours_on_disk_are_loaded_and_missing_ones_computed(llama, serve):
    first = serve(llama)
    for neighbour in NEIGHBOURS:
        first.prime(priming([], neighbour))
    first.engine.close()
    entry = primed_with(serve(llama), [*NEIGHBOURS, CHUNK])
    assert rel_diff(entry.block.values, oracle_of(llama, NEIGHBOURS)[1].values) < TOLERANCE

    alone = serve(llama, "empty")
    assert alone.prime(priming(NEIGHBOURS, CHUNK)).neighbours == 3
    record = keys_of([*NEIGHBOURS, CHUNK]).primed_record(3, entry.record.base)
    exact = FusionOracle(llama).run([*PREFIX, *(t for n in NEIGHBOURS for t in n), *CHUNK])[1]
    values = stored(alone, record).block.values
    assert rel_diff(values, exact.values[:, :, -len(CHUNK) :]) < TOLERANCE


def test_a_prompt_uses_it_at_its_own_place(model, serve):
    serving = serve(model)
    primed_with(serving, [*NEIGHBOURS, CHUNK])
    serving.prime(priming([], OTHER))
    logits = serving.ask(segments(PREFIX, [OTHER, CHUNK], QUESTION))
    fused = next(reversed(serving.prefilled.values())).fused
    assert (dict(fused.chunks), fused.chunks_primed) == ({"exact": 1, "canonical": 1}, 1)

    oracle, kv = oracle_of(model, NEIGHBOURS)
    ids = [*PREFIX, *OTHER, *CHUNK, *QUESTION]
    start = len(PREFIX)
    parts = [(start, oracle.chunk_kv(PREFIX, OTHER)), (start + len(OTHER), kv)]
    expected, _, _ = oracle.run(ids, parts)
    assert rel_diff(logits, expected[-1]) < TOLERANCE


def test_raw_kv_is_used_where_primed_kv_is_not_wanted_and_for_the_first_chunk(llama, serve):
    serving = serve(llama)
    primed_with(serving, [*NEIGHBOURS, CHUNK])
    serving.prime(priming([], CHUNK))
    wanted = {
        (OTHER, CHUNK): (KvReuse(ReusePolicy.FULL_REUSE, primed=False), 0),
        (CHUNK, OTHER): (EVERYTHING, 0),
        (NEIGHBOURS[0], CHUNK): (EVERYTHING, 1),
    }
    for chunks, (reuse, count) in wanted.items():
        serving.ask(segments(PREFIX, chunks, QUESTION), reuse)
        assert next(reversed(serving.prefilled.values())).fused.chunks_primed == count


def test_a_tenant_s_kv_is_its_own(llama, serve):
    serving = serve(llama)
    serving.prime(priming([], CHUNK), salt="a")
    assert serving.store.keeps(keys_of([CHUNK], "a").canonical_record(0, len(PREFIX)))
    assert not serving.store.keeps(keys_of([CHUNK]).canonical_record(0, len(PREFIX)))
    assert serving.prime(priming([], CHUNK)).is_new


def test_a_public_chunk_s_primed_kv_is_every_tenant_s_and_prompts_keep_theirs(llama, serve):
    """What a public chunk was primed with holds nothing of anybody's; what a prompt stores may."""
    serving = serve(llama)
    primed_with(serving, [NEIGHBOURS[0], CHUNK])
    prefix, first, second, question = segments(PREFIX, [NEIGHBOURS[0], CHUNK], QUESTION)
    public = (prefix, replace(first, is_public=True), replace(second, is_public=True), question)
    other = (prefix, Segment(tuple(OTHER), SegmentRole.CHUNK, is_public=True), question)

    def hits(prompt, salt):
        serving.ask(prompt, salt=salt)
        fused = next(reversed(serving.prefilled.values())).fused
        return dict(fused.chunks), fused.chunks_primed

    primed = {"exact": 1, "canonical": 1}, 1
    assert hits(public, "a") == primed
    expected = serving.ask(public)
    torch.testing.assert_close(serving.ask(public, salt="a"), expected)
    assert hits(other, "a") == ({"miss": 1}, 0)
    assert hits(other, "b") == ({"miss": 1}, 0), "what a prompt of a has computed"
    assert hits(other, "") == ({"miss": 1}, 0)
    assert hits(public, "b") == primed
    own = (prefix, first, second, question)  # the same text in a document of its own
    assert hits(own, "b") == ({"miss": 2}, 0)


def test_neighbours_kv_is_none_that_a_prompt_has_stored(llama, serve):
    """A prompt may begin with what is its user's, or with what misleads; all find primed KV."""
    serving = serve(llama)
    serving.ask(segments(OTHER, [NEIGHBOURS[0]], QUESTION))
    serving.prime(priming([NEIGHBOURS[0]], CHUNK))
    record = keys_of([NEIGHBOURS[0], CHUNK]).primed_record(1, len(PREFIX) + len(NEIGHBOURS[0]))
    _, kv = oracle_of(llama, NEIGHBOURS[:1])
    assert rel_diff(stored(serving, record).block.values, kv.values) < TOLERANCE


# --- when it is made -------------------------------------------------------------------------


def test_what_is_stored_is_not_computed_again_unless_the_neighbours_are_others(llama, serve):
    serving = serve(llama)
    primed_with(serving, [*NEIGHBOURS, CHUNK])
    again = serve(llama)  # another process, later
    for neighbours, is_new in ((NEIGHBOURS, False), (NEIGHBOURS[1:], True), ([], True)):
        primed = again.prime(priming(neighbours, CHUNK))
        assert primed == Primed(len(CHUNK), len(neighbours), is_new)
    assert not again.prime(priming(NEIGHBOURS[1:], CHUNK)).is_new
    assert again.prime(priming(NEIGHBOURS, CHUNK)).is_new


def test_what_is_deleted_is_primed_anew(llama, serve):
    serving = serve(llama)
    ids = iter(range(10, 20))
    chunks = [*NEIGHBOURS[:2], CHUNK]
    known = [Segment(tuple(chunk), SegmentRole.CHUNK, next(ids)) for chunk in chunks]
    prefix = Segment(tuple(PREFIX))
    for segment in known[:2]:
        serving.prime([prefix, segment])
    assert serving.prime([prefix, *known]).is_new
    assert serving.store.forget([11]) == 2  # the neighbour's raw KV, and what has seen it
    assert serving.prime([prefix, known[0], known[2]]) == Primed(len(CHUNK), 1, True)


def test_neighbours_that_do_not_fit_are_left_out_those_farthest_from_the_chunk_first():
    whole = priming(NEIGHBOURS, CHUNK)
    lengths = [len(segment.token_ids) for segment in whole]
    assert fitting(whole, sum(lengths)) == whole
    assert fitting(whole, sum(lengths) - 1) == (whole[0], *whole[2:])
    assert fitting(whole, lengths[0] + lengths[4]) == (whole[0], whole[4])
    assert fitting(whole, 1) == (whole[0], whole[4])


def test_a_chunk_longer_than_the_context_is_refused(llama, serve):
    serving = serve(llama, pages=5)
    many = [prompt(20, seed) for seed in range(8)]
    assert serving.prime(priming(many, CHUNK)).neighbours == 1
    [failed] = failures(serving, priming([], prompt(70, 1)))
    assert failed.is_input
    assert "91 tokens and 80 fit (context_tokens_max)" in failed.message


def failures(serving, segments):
    """Send a priming prompt that fails; return the terminal events."""
    task = Task(99, PrimitiveKind.PRIMING, Identity(99, "test"), PrimePayload(tuple(segments)))
    serving.engine.apply(Admit(task, 0))
    events = []
    for _ in range(4):
        while serving.engine.has_work:
            events += serving.engine.step(0.0, float("inf")).events
            serving.engine.check()
        serving.store.flush()
    assert all(isinstance(event, Failed) for event in events)
    return events


def test_a_disk_that_refuses_fails_it(llama, serve, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    serving = serve(llama)
    monkeypatch.setattr(os, "fsync", full)
    [failed] = failures(serving, priming([], CHUNK))
    assert "No space left on device" in failed.message
    assert not failed.is_input
    [failed] = failures(FusedServing(llama), priming([], CHUNK))
    assert "no disk tier: set kv_reuse_disk_bytes" in failed.message


def test_a_read_only_disk_fails_it(llama, serve, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    [failed] = failures(serve(llama), priming([], CHUNK))
    assert "chunk KV is not written to disk: make" in failed.message
    assert "writable" in failed.message


def test_an_engine_without_a_store_says_so(llama, serve):
    serving = serve(llama, reuse_problem="it has no store")
    [failed] = failures(serving, priming([], CHUNK))
    assert failed.message == "nothing is primed: it has no store"


def test_it_runs_only_while_no_query_does(llama, serve):
    serving = serve(llama, step_tokens=16)
    waiting = [serving.start_priming(priming([], chunk)) for chunk in NEIGHBOURS]
    serving.step()
    computed = {s.id: s.num_computed_tokens for s in serving.engine.sequences}
    assert sum(computed.values()) == 16
    query = serving.start(segments(PREFIX, [OTHER], QUESTION), new_tokens=5)
    while query not in serving.tokens:
        serving.step()
        assert not serving.primed
        now = {s.id: s.num_computed_tokens for s in serving.engine.sequences}
        assert {id: now[id] for id in waiting} == computed
    serving.drain()
    serving.store.flush()
    serving.drain()
    assert sorted(serving.primed) == waiting


def test_a_query_takes_the_pages_of_the_background(llama, serve):
    serving = serve(llama, step_tokens=32, pages=8)
    waiting = [serving.start_priming(priming([], chunk)) for chunk in (CHUNK, NEIGHBOURS[1])]
    serving.step()
    serving.step()
    serving.ask(segments(PREFIX, [prompt(80, 8)], QUESTION))
    serving.drain()
    serving.store.flush()
    serving.drain()
    assert sorted(serving.primed) == waiting
    record = keys_of([CHUNK]).canonical_record(0, len(PREFIX))
    values = stored(serving, record).block.values
    assert rel_diff(values, FusionOracle(llama).chunk_kv(PREFIX, CHUNK).values) < TOLERANCE


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_cancelled_at_any_moment_it_leaves_nothing(llama, serve, monkeypatch, steps):
    """After 9 steps it is computed, and waits for the disk."""
    serving = serve(llama, step_tokens=16)
    number = serving.start_priming(priming([], CHUNK))
    for _ in range(steps):
        if serving.engine.scheduler.has_work:
            serving.engine.step(0.0, float("inf"))
    serving.engine.apply(Cancel(number))
    serving.engine.apply(Cancel(number))
    serving.store.flush()
    events = [e for _ in range(3) for e in serving.engine.step(0.0, float("inf")).events]
    assert events == [Cancelled(number)]
    assert not serving.engine.has_work
    assert serving.held_pages == serving.pinned_chunks == 0
    serving.engine.check()


def test_what_attended_primed_kv_is_forgotten_with_its_neighbours(llama, serve):
    """A prompt's new chunk looks at reused KV, and so at what that has seen."""
    serving = serve(llama)
    first, primed, new, neighbour = (
        Segment(tuple(prompt(20, seed)), SegmentRole.CHUNK, chunk_id=seed) for seed in range(1, 5)
    )
    prefix, question = Segment(tuple(PREFIX)), Segment(tuple(QUESTION))
    serving.prime((prefix, neighbour))
    serving.prime((prefix, neighbour, primed))
    serving.ask((prefix, first, primed, new, question))
    looked = (prefix, new, question)
    serving.ask(looked)
    assert next(reversed(serving.prefilled.values())).fused.chunks == {"alias": 1}
    serving.store.forget([4])
    serving.ask(looked)
    assert next(reversed(serving.prefilled.values())).fused.chunks == {"miss": 1}
