"""Prompts that break reuse engines: chunks twice, empty, too long, all or none known, preempted."""

from dataclasses import replace

import pytest
import torch

from heddle.core.commands import Release
from heddle.core.frames import Failed
from heddle.core.kv_reuse import KvReuse, QuestionPass, ReusePolicy
from heddle.core.payloads import Segment
from tests.helpers.fused_serving import EVERYTHING, FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle, PlainKv
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    TOLERANCE,
    ThreeChunks,
    full_logits,
    ids_of,
    rel_diff,
    reused_logits,
    served,
    spans_of,
)
from tests.helpers.tiny_models import prompt, tiny_model

A, B, C = CHUNKS
SOME = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
WITH_CONTEXT = replace(SOME, question=QuestionPass.WITH_CONTEXT)
ALL = KvReuse(ReusePolicy.FUSIONRAG, 1.0)
POLICIES = [KvReuse(policy, 0.3) for policy in ReusePolicy]


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen3")


def _fused(serving):
    return next(reversed(serving.prefilled.values())).fused


# --- chunks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [[A, B, A], [A, A, A]], ids=["apart", "side by side"])
def test_the_same_chunk_twice_is_reused_at_each_of_its_places(model, chunks):
    serving = served(model)
    asked = segments(PREFIX, chunks, QUESTION)
    assert rel_diff(serving.ask(asked), reused_logits(model, chunks)) < TOLERANCE
    assert _fused(serving).chunks == {"exact": 1, "canonical": 2}
    assert rel_diff(serving.ask(asked, ALL), full_logits(model, ids_of(chunks))) < TOLERANCE
    assert serving.pinned_chunks == 0


def test_the_same_new_chunk_twice_is_stored_for_both_places(model):
    serving = FusedServing(model)
    asked = segments(PREFIX, [A, A], QUESTION)
    exact = full_logits(model, ids_of([A, A]))
    assert rel_diff(serving.ask(asked), exact) < TOLERANCE
    assert rel_diff(serving.ask(asked), exact) < TOLERANCE
    assert _fused(serving).chunks == {"exact": 2}


@pytest.mark.parametrize("reuse", POLICIES, ids=lambda reuse: reuse.policy.value)
def test_an_empty_chunk_is_as_if_it_were_not_there(model, reuse):
    serving = served(model)
    expected = serving.ask(segments(PREFIX, [B, C], QUESTION), reuse)
    got = serving.ask(segments(PREFIX, [(), B, (), C, ()], QUESTION), reuse)
    assert rel_diff(got, expected) < TOLERANCE
    serving.ask(segments(PREFIX, [(), ()], QUESTION), reuse)
    assert _fused(serving) is None


def test_a_chunk_longer_than_the_context_is_refused_and_leaves_nothing(model):
    serving = served(model)
    entries = serving.store.stats().entries
    number = serving.start(segments(PREFIX, [A, prompt(1100, 5)], QUESTION), decodes=False)
    (event,) = serving.engine.step(0.0, float("inf")).events
    assert isinstance(event, Failed)
    assert (event.task_id, event.is_input) == (number, True)
    assert "1024 fit (context_tokens_max)" in event.message
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)
    assert serving.store.stats().entries == entries
    logits = serving.ask(segments(PREFIX, [A], QUESTION))
    assert rel_diff(logits, full_logits(model, ids_of([A]))) < TOLERANCE


# --- questions and hits ----------------------------------------------------------------------


@pytest.mark.parametrize("reuse", POLICIES, ids=lambda reuse: reuse.policy.value)
def test_a_question_of_one_token_is_answered(model, reuse):
    serving = served(model)
    question = prompt(1, 6)
    logits = serving.ask(segments(PREFIX, CHUNKS, question), reuse, new_tokens=3)
    if reuse.policy is ReusePolicy.FULL:
        expected = full_logits(model, ids_of(CHUNKS, question=question))
        assert rel_diff(logits, expected) < TOLERANCE
    elif reuse.policy is ReusePolicy.FULL_REUSE:
        assert rel_diff(logits, reused_logits(model, CHUNKS, question)) < TOLERANCE
    else:
        recomputed = _fused(serving).tokens_recomputed
        assert 0 < recomputed <= 0.3 * sum(len(chunk) for chunk in CHUNKS)


def test_all_chunks_hit_and_the_whole_prompt_is_known_already(model):
    serving = served(model)
    asked = segments(PREFIX, [B, A, C], QUESTION)
    first = serving.ask(asked)
    assert _fused(serving).chunks == {"exact": 1, "canonical": 2}
    assert rel_diff(serving.ask(asked), first) < TOLERANCE
    one = segments(PREFIX, [C], QUESTION)
    exact = full_logits(model, ids_of([C]))
    for _ in range(2):  # the second time prefix, chunk and question are all cached
        assert rel_diff(serving.ask(one), exact) < TOLERANCE
        assert _fused(serving).chunks == {"exact": 1}


@pytest.mark.parametrize("reuse", POLICIES, ids=lambda reuse: reuse.policy.value)
def test_no_chunk_hits(model, reuse):
    serving = FusedServing(model)
    logits = serving.ask(segments(PREFIX, CHUNKS, QUESTION), reuse)
    assert rel_diff(logits, full_logits(model, ids_of(CHUNKS))) < TOLERANCE
    if reuse.policy is ReusePolicy.FULL:
        assert _fused(serving) is None
    else:
        assert _fused(serving).chunks == {"miss": 3}


def test_the_question_does_not_look_where_a_missing_chunk_will_be(model):
    case = ThreeChunks(model, [C, prompt(40, 8), A])
    serving = served(model)
    logits = serving.ask(case.segments, WITH_CONTEXT)
    assert _fused(serving).chunks == {"exact": 1, "miss": 1, "canonical": 1}

    stored = [case.stored[0], case.stored[2]]
    _, row, queries = case.oracle.run(case.ids, stored, case.uncovered)
    _, missing, candidate = spans_of(case.chunks)
    places = torch.arange(candidate.start, candidate.stop)
    keys = case.oracle.rotated(row.keys[-1][None][:, :, places], places)[0]
    scores = case.looks(queries[:, -len(QUESTION) :], keys)
    selected = places[scores.topk(int(SOME.ratio * len(A))).indices].tolist()
    active = sorted({*case.uncovered, *range(missing.start, missing.stop), *selected})
    expected = case.oracle.run(case.ids, stored, active)[0][-1]
    assert rel_diff(logits, expected) < TOLERANCE


@pytest.mark.parametrize("policy", [p for p in ReusePolicy if p is not ReusePolicy.FULL])
def test_at_ratio_one_a_chunk_of_which_a_part_is_cached_is_computed_to_its_end(model, policy):
    """A page ends within the second chunk, and so does what an exact prompt has left behind."""
    serving = served(model)
    serving.ask(segments(PREFIX, [C, A], prompt(4, 9)), KvReuse())
    logits = serving.ask(segments(PREFIX, [C, A, B], QUESTION), KvReuse(policy, 1.0))
    assert rel_diff(logits, full_logits(model, ids_of([C, A, B]))) < TOLERANCE
    fused = _fused(serving)
    assert fused.ratio == 1.0
    assert len(B) < fused.tokens_recomputed < len(A) + len(B)


@pytest.mark.parametrize("is_ahead", [False, True], ids=["with its prompt", "ahead"])
@pytest.mark.parametrize(
    "policy", [p for p in ReusePolicy if p not in (ReusePolicy.FULL, ReusePolicy.FULL_REUSE)]
)
def test_what_is_left_of_a_chunk_may_be_selected(model, policy, is_ahead):
    serving = served(model)
    serving.ask(segments(PREFIX, [C, A], prompt(4, 9)), KvReuse())
    if is_ahead:
        serving.start_asking(QUESTION)
        serving.drain()
    cached = len(ids_of([C, A], question=())) // 16 * 16
    left = len(ids_of([C, A], question=())) - cached
    assert 0 < left < len(A)
    serving.ask(segments(PREFIX, [C, A, B], QUESTION), KvReuse(policy, 0.5))
    fused = _fused(serving)
    assert fused.tokens_recomputed == left // 2 + len(B) // 2
    assert fused.was_ahead == (is_ahead and policy is ReusePolicy.FUSIONRAG)


def test_reordered_chunks_are_found_whatever_stood_before_them(model):
    """Stored in the middle of another prompt, they turn forwards and backwards."""
    serving = FusedServing(model)
    serving.ask(segments(PREFIX, [A, B, C], QUESTION))
    logits = serving.ask(segments(PREFIX, [C, A, B], QUESTION))
    assert _fused(serving).chunks == {"alias": 1, "suffix": 1, "canonical": 1}

    oracle = FusionOracle(model)
    _, kv, _ = oracle.run(ids_of([A, B, C]))
    before = dict(zip(CHUNKS, spans_of([A, B, C]), strict=True))
    stored = []
    for chunk, span in zip([C, A, B], spans_of([C, A, B]), strict=True):
        old = before[chunk]
        stored.append((span.start, PlainKv(kv.keys[:, :, old], kv.values[:, :, old])))
    expected = oracle.run(ids_of([C, A, B]), stored)[0][-1]
    assert rel_diff(logits, expected) < TOLERANCE


def test_a_chunk_behind_another_text_between_chunks_is_not_exact(model):
    def asked(text):
        first, *rest = segments(PREFIX, [A, B], QUESTION)
        return (first, rest[0], Segment(tuple(text)), *rest[1:])

    serving = FusedServing(model)
    one, other = prompt(6, 11), prompt(6, 12)
    serving.ask(asked(one))
    serving.ask(asked(other))
    assert _fused(serving).chunks == {"exact": 1, "alias": 1}
    serving.ask(asked(one))
    assert _fused(serving).chunks == {"exact": 2}


def test_chunks_without_a_prefix_or_a_question(model):
    serving = FusedServing(model)
    for chunk in (A, B):
        serving.ask(segments((), [chunk], prompt(3, 9)))
    logits = serving.ask(segments((), [B, A], ()))
    assert rel_diff(logits, full_logits(model, [*B, *A])) < TOLERANCE, "nothing asks: no reuse"
    fused = _fused(serving)
    assert (dict(fused.chunks), fused.ratio) == ({"miss": 2}, 0.0)
    assert "nothing follows the prompt's last passage" in fused.notes[0]
    serving.ask(segments((), [B, A], ()), KvReuse())
    assert _fused(serving) is None, "nobody asked for reuse"


# --- preempted -------------------------------------------------------------------------------


@pytest.mark.parametrize("reuse", [EVERYTHING, SOME, ALL], ids=["0", "0.3", "1"])
def test_a_prompt_preempted_at_any_step_answers_as_alone(model, reuse):
    """Before, while and after its passes run, and while it decodes."""
    asked = segments(PREFIX, [C, A, B, prompt(40, 8)], QUESTION)
    serving = served(model, step_tokens=16)
    alone = serving.start(asked, reuse, 4)
    steps = 0
    while serving.engine.sequences.get(alone):
        serving.step()
        steps += 1
    assert steps > 5, "a weak test"
    for taken_after in range(1, steps):
        again = served(model, step_tokens=16)
        number = again.start(asked, reuse, 4)
        sequence = again.engine.sequences.get(number)
        for _ in range(taken_after):
            again.step()
        again.engine.scheduler.preempt(sequence)
        again.drain()
        assert again.preemptions[number] == 1
        for got, expected in zip(again.logits[number], serving.logits[alone], strict=True):
            assert rel_diff(got, expected) < TOLERANCE, f"preempted after {taken_after} steps"
        assert (again.pinned_chunks, again.held_pages) == (0, 0)


def test_a_prompt_preempted_while_it_decodes_whose_every_page_is_cached_by_then(model):
    """Another request has computed all of it, and it ends with a page: nothing is left to fuse."""
    question = prompt(18, 8)
    asked = segments(PREFIX, [C, A, B], question)
    assert sum(len(segment.token_ids) for segment in asked) % 16 == 0
    serving = served(model)
    number = serving.start(asked, EVERYTHING, 8)
    sequence = serving.engine.sequences.get(number)
    while not sequence.is_decoding:
        serving.step()
    serving.step()
    other = serving.start(asked, KvReuse(), decodes=False)
    while other not in serving.prefilled:
        serving.step()
    serving.engine.scheduler.preempt(sequence)
    serving.drain()
    assert len(serving.tokens[number]) == 8
    assert serving.preemptions[number] == 1
    serving.engine.apply(Release(serving.prefilled[other].handle))
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)
