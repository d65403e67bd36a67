"""Requests over the same chunks hold their pages once, and answer as on copies. (ADR 12)"""

import hashlib
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.llm_parity import RecordingWorker
from heddle.core.commands import Amend, AmendMode, Cancel, Release
from heddle.core.frames import Done
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.results import Prefilled
from heddle.engines.llm.model.fused_layers import fuse_layers
from tests.helpers.fused_serving import EVERYTHING, FusedServing, segments
from tests.helpers.stored_chunks import chunks_stored
from tests.helpers.three_chunks import CHUNKS as ABC
from tests.helpers.three_chunks import PREFIX, QUESTION, ids_of, rel_diff, served
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

A, B, C = ABC
PAGE = 16
SOME = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
ON_COPIES = patch.object(RecordingWorker, "can_share", new=False)
TURNED = 5e-5  # queries turned back instead of keys turned forth
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
ON_ITS_OWN = (ReusePolicy.FULL, ReusePolicy.CACHEBLEND)
SHARING = [KvReuse(policy, 0.3) for policy in ReusePolicy if policy not in ON_ITS_OWN]


def _pages(tokens):
    return -(-tokens // PAGE)


def _chunk_pages(serving):
    return serving.engine.scheduler.kv_cache.chunk_pages


def _release(serving, numbers):
    for number in numbers:
        serving.engine.apply(Release(serving.prefilled[number].handle))


def _assert_all_given_back(serving):
    serving.engine.check()
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)


def _rows(serving):
    return [sequence.row for sequence in serving.engine.sequences]


# --- counted ---------------------------------------------------------------------------------

LONG = [prompt(64, 1), prompt(50, 2), prompt(33, 3)]


def _eight_at_once(reuse):
    """Put in eight prompts of three chunks in two orders; return the serving and their numbers."""
    serving = FusedServing(tiny_model("llama"), step_tokens=100)
    for chunk in LONG:
        serving.ask(segments(PREFIX, [prompt(5, 5), chunk], QUESTION))
    orders = [LONG, LONG[::-1]]
    numbers = [
        serving.start(segments(PREFIX, orders[n % 2], QUESTION), reuse, decodes=False)
        for n in range(8)
    ]
    serving.drain()
    return serving, numbers


@pytest.mark.parametrize("reuse", [EVERYTHING, SOME], ids=["reuse", "fusionrag"])
def test_eight_requests_at_once_hold_each_chunk_once(reuse):
    with ON_COPIES:
        copying, numbers = _eight_at_once(reuse)
        assert {copying.prefilled[n].fused.tokens_shared for n in numbers} == {0}
    serving, numbers = _eight_at_once(reuse)
    tokens, (prefix_page,) = sum(map(len, LONG)), {row.pages[0] for row in _rows(serving)}
    once = {page for row in _rows(serving) for span in row.spans for page in span.pages.pages}
    assert len(once) == sum(_pages(len(chunk)) for chunk in LONG)
    ledger = serving.engine.scheduler.kv_cache.ledger
    assert [ledger.refcount(page) for page in once] == [8] * len(once)
    computed = len(ids_of(LONG)) - tokens
    for number in numbers:
        fused = serving.prefilled[number].fused
        assert fused.tokens_shared == tokens - fused.tokens_recomputed
        assert (fused.tokens_recomputed > 0) == (reuse is SOME)
    own = _pages(computed + serving.prefilled[numbers[0]].fused.tokens_recomputed)
    assert [len(row.pages) for row in _rows(serving)] == [own] * 8
    assert ledger.refcount(prefix_page) == 8
    assert serving.held_pages == len(once) + 1 + 8 * (own - 1)
    assert serving.held_pages < copying.held_pages / (2 if reuse is EVERYTHING else 1.5)
    assert serving.pinned_chunks == 8 * 3, "a preempted row is filled from the store again"
    _release(serving, numbers)
    _assert_all_given_back(serving)


def test_a_chunk_is_filled_once_and_kept_for_prompts_to_come():
    serving = served(tiny_model("llama"))
    with patch.object(serving.worker, "load", wraps=serving.worker.load) as load:
        numbers = [serving.start(segments(PREFIX, [C, A, B], QUESTION)) for _ in range(3)]
        serving.drain()
        assert load.call_count == 3
        serving.ask(segments(PREFIX, [B, A], QUESTION))
        assert load.call_count == 3
    assert serving.logits[numbers[0]][0].tolist() == serving.logits[numbers[2]][0].tolist()


# --- as on copies ----------------------------------------------------------------------------


def _answers(model, reuses, **options):
    """Return what each policy answers, all at once, and their receipts."""
    serving = served(model, step_tokens=64, **options)
    asked = segments(PREFIX, [C, A, B, A], QUESTION)
    numbers = [serving.start(asked, reuse, 4) for reuse in reuses]
    serving.drain()
    _assert_all_given_back(serving)
    logits = [torch.stack(serving.logits[number]) for number in numbers]
    return logits, [serving.prefilled[number].fused for number in numbers]


@pytest.mark.parametrize("kind", [*FAMILIES, "linear", "llama fused", "qwen3-yarn fused"])
def test_every_policy_answers_as_on_copies(kind):
    def model():
        if kind == "linear":
            return tiny_model("llama", rope_parameters=LINEAR)
        made = tiny_model(kind.removesuffix(" fused"))
        if kind.endswith(" fused"):
            fuse_layers(made)
        return made

    with ON_COPIES:
        expected, _ = _answers(model(), SHARING)
    got, receipts = _answers(model(), SHARING)
    for logits, on_copies in zip(got, expected, strict=True):
        assert rel_diff(logits, on_copies) < TURNED
    assert all(fused.tokens_shared > 0 for fused in receipts)


def test_what_is_computed_whole_shares_nothing():
    """CacheBlend writes the first layers of every token; at ratio 1 nothing is reused but exact."""
    blend = KvReuse(ReusePolicy.CACHEBLEND, 0.3)
    legacy = KvReuse(ReusePolicy.CACHEBLEND, 0.3, legacy_mask=True)
    _, receipts = _answers(tiny_model("llama"), [blend, legacy])
    assert [fused.tokens_shared for fused in receipts] == [0, 0]
    serving = served(tiny_model("llama"))
    with patch.object(serving.worker, "load", wraps=serving.worker.load) as load:
        serving.ask(segments(PREFIX, [C, A, B], QUESTION), KvReuse(ReusePolicy.EPIC, 1.0))
        loaded = [len(call.args[0].slots) for call in load.call_args_list]
    assert loaded in ([], [len(C)]), "a chunk was loaded and then computed anew"


def test_shared_pages_stay_as_they_were_filled():
    with chunks_stored() as stored:
        serving = served(tiny_model("llama"))
    serving.ask(segments(PREFIX, [C, A, B], QUESTION))
    before = _checksum(serving, stored)
    numbers = [
        serving.start(segments(PREFIX, order, QUESTION), reuse, 4)
        for order in ([C, A, B], [B, C, A])
        for reuse in SHARING
    ]
    serving.drain()
    assert all(len(serving.logits[number]) == 4 for number in numbers)
    assert _checksum(serving, stored) == before


def _checksum(serving, stored):
    pages = []
    for chunk in stored:
        shared = _chunk_pages(serving).hold(chunk.record)
        assert shared is not None, "the chunk has no pages"
        pages += shared.pages
        _chunk_pages(serving).release(shared)
    slots = (np.array(pages)[:, None] * PAGE + np.arange(PAGE)).ravel()
    block = serving.worker.export_kv(slots)
    return hashlib.sha256(block.keys.numpy().tobytes() + block.values.numpy().tobytes()).digest()


@pytest.mark.parametrize("reuse", [EVERYTHING, SOME], ids=["reuse", "fusionrag"])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_prompt_whose_chunk_is_exchanged_keeps_those_before_it(reuse, place):
    def answer():
        serving = served(tiny_model("llama"))
        number = serving.start(segments(PREFIX, [B, C, A], QUESTION), reuse, decodes=False)
        serving.drain()
        serving.engine.apply(Amend(number, place, B, AmendMode.REPLACE))
        serving.decode(number, 4)
        serving.drain()
        _assert_all_given_back(serving)
        return torch.stack(serving.logits[number])

    with ON_COPIES:
        expected = answer()
    assert rel_diff(answer(), expected) < TURNED


# --- given back ------------------------------------------------------------------------------

SMALL_MODEL = tiny_model("llama", num_hidden_layers=1)


def _with_ids(chunks):
    """Return a prompt whose chunks are known to the corpus by their numbers."""
    parts = (Segment(ABC[n], SegmentRole.CHUNK, n) for n in chunks)
    return (Segment(PREFIX), *parts, Segment(QUESTION))


def _follow(serving):
    """Take a step; an answered request gives its pages back, a failed one has none."""
    for event in serving.engine.step(0.0, float("inf")).events:
        if isinstance(event, Done) and isinstance(event.result, Prefilled):
            serving.prefilled[event.task_id] = event.result
        elif isinstance(event, Done):
            _release(serving, [event.task_id - 1])
    serving.engine.check()


@settings(max_examples=40, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=4),
            st.sampled_from([EVERYTHING, *SHARING, KvReuse(ReusePolicy.CACHEBLEND, 0.3)]),
            st.integers(0, 3),  # steps before what ends it
            st.sampled_from(["answer", "cancel", "failure", "forgotten"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_pages_are_given_back_once_whatever_ends_their_readers(requests):
    """Answered, cancelled, failed, or a chunk forgotten; preempted, as the pool is small."""
    serving = FusedServing(SMALL_MODEL, pages=24, step_tokens=48)
    for chunk in range(3):
        serving.ask(_with_ids([chunk]))
    for chunks, reuse, steps, end in requests:
        number = serving.start(_with_ids(chunks), reuse, 6)
        for _ in range(steps):
            _follow(serving)
        if end == "cancel":
            serving.engine.apply(Cancel(number))
        elif end == "failure":
            with patch.object(serving.worker, "run", side_effect=RuntimeError("lost")):
                _follow(serving)
        elif end == "forgotten":
            serving.store.forget([chunks[0]])
    while serving.engine.has_work:
        _follow(serving)
    _release(serving, serving.prefilled)
    _assert_all_given_back(serving)
    ledger = serving.engine.scheduler.kv_cache.ledger
    assert ledger.make_room(ledger.page_count), "a page was lost"


def test_pages_of_a_deleted_chunk_are_freed_by_the_next_look_into_the_store():
    serving = FusedServing(SMALL_MODEL)
    for chunk in range(3):
        serving.ask(_with_ids([1, chunk]))  # behind another one: in no prefix cache
    number = serving.start(_with_ids([2, 1, 0]), decodes=False)
    serving.drain()
    pages, ledger = _chunk_pages(serving), serving.engine.scheduler.kv_cache.ledger
    held = len(pages)
    serving.store.forget([0])
    serving.ask(segments((), [prompt(9, 9)], QUESTION))
    assert len(pages) < held
    before = ledger.free_count
    _release(serving, [number])
    assert ledger.free_count >= before + _pages(len(A)), "its pages are still cached"
    _assert_all_given_back(serving)


def test_a_prompt_that_would_not_fit_beside_its_chunks_reads_copies():
    serving = served(tiny_model("llama"), pages=10)
    number = serving.start(segments(PREFIX, [C, A, B], QUESTION), SOME, 20)
    serving.drain()
    assert serving.prefilled[number].fused.tokens_shared == 0
    assert len(serving.tokens[number]) == 20


@pytest.mark.parametrize("fuses", [False, True])
def test_drafts_behind_shared_chunks_change_no_token(fuses):
    model = tiny_model("llama")
    if fuses:
        fuse_layers(model)
    asked, steps, written = segments(PREFIX, [C, A, B], QUESTION), [], []
    serving = served(model)
    for draft in ((), "the same"):
        number = serving.start(asked, SOME, decodes=False)
        serving.decode(number, 12, written[0] if draft else ())
        with patch.object(serving.worker, "run", wraps=serving.worker.run) as run:
            serving.drain()
            steps.append(run.call_count)
        assert serving.prefilled[number].fused.tokens_shared > 0
        written.append(serving.tokens[number])
    assert written[0] == written[1]
    assert steps[1] <= steps[0] - 10
