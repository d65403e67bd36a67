"""Fused prompts against an oracle that knows neither pages nor stored rotations."""

import threading

import pytest

from heddle.core.commands import Amend, AmendMode, Cancel
from heddle.core.kv_reuse import KvReuse, QuestionPass, ReusePolicy
from tests.helpers.fused_serving import EVERYTHING, FusedServing, segments
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    TOLERANCE,
    ThreeChunks,
    rel_diff,
    served,
)
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

SOME = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
WITH_CONTEXT = KvReuse(ReusePolicy.FUSIONRAG, 0.3, question=QuestionPass.WITH_CONTEXT)
FEW_PAGES = 16


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


@pytest.fixture(scope="module")
def case(model):
    return ThreeChunks(model)


def last_fused(serving):
    return next(reversed(serving.prefilled.values())).fused


def test_full_reuse_equals_the_oracle(model, case):
    logits = served(model).ask(case.segments)
    assert rel_diff(logits, case.logits()) < TOLERANCE
    full = case.oracle.run(case.ids)[0][-1]
    assert rel_diff(logits, full) > 1e-3, "reuse should not be exact here"


@pytest.mark.parametrize("step_tokens", [512, 19])
def test_the_question_selects_what_the_oracle_selects(model, case, step_tokens):
    serving = served(model, step_tokens=step_tokens)
    logits = serving.ask(case.segments, WITH_CONTEXT)

    _, _, queries = case.oracle.run(case.ids, case.stored, case.uncovered)
    scores = case.question_scores(queries[:, -len(QUESTION) :])
    budget = int(SOME.ratio * len(case.candidates))
    assert rel_diff(logits, case.logits(case.top(scores, budget))) < TOLERANCE
    fused = last_fused(serving)
    assert fused.tokens_recomputed == budget
    assert fused.tokens_surveyed == len(QUESTION)
    assert fused.chunks == {"exact": 1, "canonical": 2}


def test_decoding_goes_on_as_the_oracle_does(model, case):
    serving = served(model)
    serving.ask(case.segments, new_tokens=6)
    tokens = next(reversed(serving.tokens.values()))

    ids = case.ids
    for token in tokens:
        expected, _, _ = case.oracle.run(ids, case.stored)
        assert int(expected[-1].argmax()) == token
        ids = [*ids, token]


def test_a_missing_chunk_is_computed_and_found_the_next_time(model, case):
    serving = FusedServing(model)
    serving.ask(segments(PREFIX, [CHUNKS[0]], prompt(3, 9)))
    logits = serving.ask(segments(PREFIX, [CHUNKS[0], CHUNKS[1]], QUESTION))

    ids = [*PREFIX, *CHUNKS[0], *CHUNKS[1], *QUESTION]
    full = case.oracle.run(ids)[0][-1]
    assert rel_diff(logits, full) < TOLERANCE, "only a lossless chunk was reused"
    assert last_fused(serving).chunks == {"exact": 1, "miss": 1}

    serving.ask(segments(PREFIX, [CHUNKS[0], CHUNKS[1]], prompt(5, 9)))
    assert last_fused(serving).chunks == {"exact": 1, "alias": 1}, "it was stored as approximate"
    serving.ask(segments(PREFIX, [CHUNKS[2], CHUNKS[1]], QUESTION))
    assert last_fused(serving).chunks == {"miss": 1, "alias": 1}


def test_reuse_leaves_the_prefix_cache_exact(model, case):
    serving = served(model)
    serving.ask(case.segments, new_tokens=4)
    logits = serving.ask(case.segments, KvReuse())
    assert rel_diff(logits, case.oracle.run(case.ids)[0][-1]) < TOLERANCE


def answered_from_disk(case, folder, damage=lambda file: None, reuse=EVERYTHING):
    """Store every chunk on disk, open it anew and answer; returns the serving and the request."""
    disk = {"directory": folder, "disk_bytes_max": 1 << 28}
    served(case.model, **disk).engine.close()
    serving = FusedServing(case.model, **disk)
    for file in folder.rglob("*.safetensors"):
        damage(file)
    woken = threading.Event()
    serving.engine.subscribe(woken.set)
    number = serving.start(case.segments, reuse)
    while number not in serving.logits:
        assert woken.wait(10), "no load has ended"
        woken.clear()
        serving.drain()
    serving.engine.close()
    return serving, number


def test_chunks_on_disk_are_loaded_while_the_prompt_waits(case, tmp_path):
    serving, number = answered_from_disk(case, tmp_path)
    assert rel_diff(serving.logits[number][0], case.logits()) < TOLERANCE
    tokens = sum(len(chunk) for chunk in CHUNKS)
    assert serving.prefilled[number].fused.tokens_from_disk == tokens


def test_a_lossless_chunk_takes_nothing_of_the_budget(case, tmp_path):
    """After a restart no page is exact, so the first chunk is read from the store as well."""
    serving, number = answered_from_disk(case, tmp_path, reuse=SOME)
    fused = serving.prefilled[number].fused
    assert fused.chunks == {"exact": 1, "canonical": 2}
    assert fused.tokens_recomputed == int(SOME.ratio * len(case.candidates))


def test_a_chunk_whose_file_is_broken_is_computed(case, tmp_path):
    serving, number = answered_from_disk(
        case, tmp_path, damage=lambda file: file.write_bytes(file.read_bytes()[:-7])
    )
    full = case.oracle.run(case.ids)[0][-1]
    assert rel_diff(serving.logits[number][0], full) < TOLERANCE
    assert serving.prefilled[number].fused.chunks == {"miss": 3}


def test_a_prompt_cancelled_while_loading_gives_everything_back(model, case, tmp_path):
    disk = {"directory": tmp_path, "disk_bytes_max": 1 << 28}
    served(model, **disk).engine.close()
    serving = FusedServing(model, **disk)
    number = serving.start(case.segments)
    serving.engine.apply(Cancel(number))
    serving.drain()
    serving.engine.check()
    assert serving.logits == {}
    serving.engine.close()
    assert serving.store.stats().entries == 3


def test_requests_together_answer_as_alone(model, case):
    serving = served(model, step_tokens=64)
    wanted = [SOME, EVERYTHING, KvReuse(ReusePolicy.EPIC, 0.2)]
    wanted += [KvReuse(ReusePolicy.CACHEBLEND, 0.3), KvReuse(ReusePolicy.CACHECRAFT, 0.3)]
    alone = [serving.ask(case.segments, reuse) for reuse in wanted]
    numbers = [serving.start(case.segments, reuse, 3) for reuse in wanted]
    numbers += [serving.start(segments(PREFIX, [], prompt(70, 8)), KvReuse(), 3)]
    serving.drain()
    for number, expected in zip(numbers, alone, strict=False):
        assert rel_diff(serving.logits[number][0], expected) < TOLERANCE
    assert all(len(serving.logits[number]) == 3 for number in numbers)


@pytest.mark.parametrize("policy", [ReusePolicy.FUSIONRAG, ReusePolicy.CACHEBLEND])
def test_prompts_that_take_each_others_pages_answer_as_alone(model, case, policy):
    """Of 9 pages each, 11 with the answer, they share 4 (the prefix and the first chunk).

    So 16 pages give two of them a seat and hold one answer to its end; 18 hold two.
    """
    reuse = KvReuse(policy, 0.3)
    serving = served(model, pages=64)
    alone = serving.start(case.segments, reuse, 30)
    serving.drain()
    small = served(model, pages=FEW_PAGES, step_tokens=32)
    numbers = [small.start(case.segments, reuse, 30) for _ in range(2)]
    small.drain()
    assert sum(small.preemptions[number] for number in numbers) > 0, "a weak test"
    for number in numbers:
        assert small.tokens[number] == serving.tokens[alone]
        for got, expected in zip(small.logits[number], serving.logits[alone], strict=True):
            assert rel_diff(got, expected) < TOLERANCE


def test_a_prompt_amended_after_its_fusion_publishes_nothing_approximate(model, case):
    serving = served(model)
    number = serving.start(case.segments, decodes=False)
    serving.drain()
    more = prompt(33, 7)
    serving.engine.apply(Amend(number, 0, more, AmendMode.APPEND))
    serving.decode(number, 1)
    serving.drain()
    logits = serving.ask(segments(case.ids, [], more), KvReuse())
    expected = case.oracle.run([*case.ids, *more])[0][-1]
    assert rel_diff(logits, expected) < TOLERANCE
