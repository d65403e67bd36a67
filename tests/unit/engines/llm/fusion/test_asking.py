"""A question that is run before its passages are known selects like the question alone."""

from unittest.mock import patch

import numpy as np
import pytest
import torch

from heddle.core.commands import Amend, AmendMode, Cancel
from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.kv_reuse import AUTO, KvReuse, QuestionPass, ReusePolicy
from heddle.engines.llm.background import ASKINGS_MAX
from heddle.engines.llm.fusion.asked_questions import BYTES_MAX, AskedQuestions
from heddle.engines.llm.model.fused_layers import fuse_layers
from heddle.engines.llm.step_prices import StepPrices
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.kept_questions import questions_kept
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

RATIO = 0.1
ALONE = KvReuse(ReusePolicy.FUSIONRAG, RATIO)
WITH_CONTEXT = KvReuse(ReusePolicy.FUSIONRAG, RATIO, question=QuestionPass.WITH_CONTEXT)
LONG = prompt(60, 7)


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


@pytest.fixture(scope="module")
def case(model):
    return ThreeChunks(model)


def asked(model, question=QUESTION, **options):
    """Return an engine whose store knows every chunk, and that has run the question."""
    serving = served(model, **options)
    number = serving.start_asking(question)
    serving.drain()
    assert serving.asked == {number: ""}
    return serving


def last_fused(serving):
    return next(reversed(serving.prefilled.values())).fused


def selected_alone(case, ratio=RATIO):
    """Return what a question that sees only itself selects, by the oracle."""
    _, _, queries = case.oracle.run(case.ids, (), case.question)
    return case.top(case.question_scores(queries), int(ratio * len(case.candidates)))


def in_slices():
    """Let steps have room for 13 prompt tokens only."""
    return patch.object(StepPrices, "prefill_tokens_within", return_value=13)


def assert_nothing_held(serving):
    serving.engine.check()
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)
    assert not serving.engine.sequences


# --- selecting -------------------------------------------------------------------------------


@pytest.mark.parametrize("step_tokens", [512, 19])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_selects_what_the_question_alone_looks_at(family, step_tokens):
    model = tiny_model(family)
    case = ThreeChunks(model)
    serving = asked(model, step_tokens=step_tokens)
    logits = serving.ask(case.segments, ALONE)
    assert rel_diff(logits, case.logits(selected_alone(case))) < TOLERANCE
    fused = last_fused(serving)
    assert (fused.question, fused.was_ahead) == (QuestionPass.ALONE, True)
    assert fused.notes == ()
    assert fused.tokens_surveyed == len(QUESTION)
    assert fused.tokens_recomputed == int(RATIO * len(case.candidates))
    assert fused.surveying_s > 0.0

    other = served(model, step_tokens=step_tokens)
    assert rel_diff(other.ask(case.segments, WITH_CONTEXT), logits) > 1e-4, "a weak test"


@pytest.mark.parametrize("family", FAMILIES)
def test_its_scores_are_those_of_its_queries_turned_to_their_places(family):
    model = tiny_model(family)
    case = ThreeChunks(model)
    serving = asked(model)
    scores = serving.worker.scores
    taken = []
    with patch.object(
        serving.worker, "scores", lambda *args: taken.append(scores(*args)) or taken[0]
    ):
        serving.ask(case.segments, ALONE)

    _, _, queries = case.oracle.run(QUESTION)
    place = torch.full((len(QUESTION),), case.question[0])
    turned = case.oracle.rotated(queries[None], place)[0]
    turned /= getattr(model.model.rotary_emb, "attention_scaling", 1.0)  # it is in them already
    expected = case.question_scores(turned)
    assert rel_diff(torch.from_numpy(np.concatenate(taken[0])), tensor_of(case, expected)) < 1e-4
    unturned = case.question_scores(queries)
    assert rel_diff(tensor_of(case, unturned), tensor_of(case, expected)) > 1e-3, "a weak test"


def tensor_of(case, scores):
    return torch.tensor([scores[position] for position in case.candidates])


def test_it_selects_alike_where_layers_are_fused():
    model = tiny_model("llama")
    expected = served(model).ask(ThreeChunks(model).segments, ALONE)
    fuse_layers(model)
    serving = asked(model)
    logits = serving.ask(segments(PREFIX, [CHUNKS[i] for i in (2, 0, 1)], QUESTION), ALONE)
    assert rel_diff(logits, expected) < 1e-4


def test_a_question_in_slices_is_the_same(model):
    cut = served(model)
    with questions_kept() as kept:
        asked(model, LONG)
        cut.start_asking(LONG)
        with in_slices():
            for _ in range(4):
                assert not cut.asked
                cut.step()
            cut.drain()
    (_, one), (_, other) = kept
    assert one.shape == other.shape
    assert rel_diff(torch.from_numpy(other), torch.from_numpy(one)) < TOLERANCE


def test_a_question_that_loses_its_pages_begins_anew(model):
    serving = served(model)
    number = serving.start_asking(LONG)
    with in_slices():
        serving.step()
    serving.engine.scheduler.preempt(serving.engine.sequences.get(number))
    with questions_kept() as kept:
        serving.drain()
        asked(model, LONG)
    (_, one), (_, other) = kept
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_where_nothing_is_chosen_nothing_is_scored(model, case, ratio):
    serving = asked(model)
    reuse = KvReuse(ReusePolicy.FUSIONRAG, ratio)
    with patch.object(serving.worker, "scores", side_effect=AssertionError):
        serving.ask(case.segments, reuse)
    fused = last_fused(serving)
    assert (fused.question, fused.tokens_surveyed, fused.notes) == (None, 0, ())


def test_a_ratio_from_the_deadline_goes_with_it(model, case):
    serving = asked(model)
    serving.ask(case.segments, KvReuse(ReusePolicy.FUSIONRAG, AUTO))
    fused = last_fused(serving)
    assert (fused.ratio, fused.was_ahead) == (0.15, True)


def test_equal_runs_give_equal_numbers(model, case):
    first, second = (asked(model).ask(case.segments, ALONE) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_a_preempted_prompt_keeps_its_selection(model, case):
    """It has drawn tokens after its first selection: the second one has to be the same."""
    serving = asked(model)
    expected = serving.ask(case.segments, ALONE)
    number = serving.start(case.segments, ALONE, 6)
    serving.step()
    sequence = serving.engine.sequences.get(number)
    serving.fuser.asked.keep("", (1,), np.zeros((1, BYTES_MAX // 4, 1), np.float32))
    assert not serving.fuser.asked.knows("", tuple(QUESTION)), "there was room for both"
    serving.engine.scheduler.preempt(sequence)
    serving.drain()
    assert serving.preemptions[number] == 1
    assert serving.prefilled[number].fused.was_ahead
    assert rel_diff(serving.logits[number][0], expected) < TOLERANCE
    undisturbed = asked(model)
    other = undisturbed.start(case.segments, ALONE, 6)
    undisturbed.drain()
    assert serving.tokens[number] == undisturbed.tokens[other]


# --- too late, or something else -------------------------------------------------------------


def with_its_prompt(serving, case):
    """Ask; return the logits, and the notes of a receipt that says when the question ran."""
    logits = serving.ask(case.segments, ALONE)
    fused = last_fused(serving)
    assert (fused.question, fused.was_ahead) == (QuestionPass.ALONE, False)
    assert fused.tokens_surveyed == len(QUESTION)
    return logits, fused.notes


def test_when_it_runs_changes_no_answer(model, case):
    logits, notes = with_its_prompt(served(model), case)
    assert notes == ()
    assert rel_diff(logits, asked(model).ask(case.segments, ALONE)) < TOLERANCE


def test_where_nothing_may_be_chosen_the_question_does_not_run(model):
    serving = served(model)
    serving.ask(segments(PREFIX, [CHUNKS[0]], QUESTION), ALONE)
    fused = last_fused(serving)
    assert (fused.question, fused.was_ahead, fused.tokens_surveyed) == (None, False, 0)


def test_asked_with_the_context_it_is_not_looked_for(model, case):
    serving = asked(model)
    serving.ask(case.segments, WITH_CONTEXT)
    fused = last_fused(serving)
    assert (fused.question, fused.was_ahead) == (QuestionPass.WITH_CONTEXT, False)


def test_another_question_another_tenant(model, case):
    serving = asked(model, [*QUESTION[:-1], QUESTION[-1] + 1])
    serving.start_asking(QUESTION, salt="another tenant")
    serving.drain()
    with_its_prompt(serving, case)


def test_an_edited_question_is_not_taken_for_the_one_that_ran(model, case):
    serving = asked(model, prompt(9, 8))
    before = segments(PREFIX, [CHUNKS[i] for i in (2, 0, 1)], prompt(9, 8))
    number = serving.start(before, ALONE)
    command = Amend(number, len(before) - 1, tuple(QUESTION), AmendMode.REPLACE)
    serving.engine.apply(command)
    serving.drain()
    fused = serving.prefilled[number].fused
    assert (fused.question, fused.was_ahead) == (QuestionPass.ALONE, False)
    expected = served(model).ask(case.segments, ALONE)
    assert rel_diff(serving.logits[number][0], expected) < TOLERANCE


def test_what_cannot_be_scored_runs_with_its_prompt(model, case, caplog):
    serving = asked(model)
    with patch.object(serving.worker, "scores", side_effect=RuntimeError("no room")):
        _, (fallback,) = with_its_prompt(serving, case)
    assert fallback.startswith("RuntimeError while scoring")
    assert "could not be scored" in caplog.text
    assert serving.ask(case.segments, ALONE) is not None
    assert last_fused(serving).was_ahead


def test_it_waits_while_anybody_else_computes(model, case):
    serving = served(model)
    other = serving.start(segments(PREFIX, [], prompt(5, 6)), KvReuse(), 4)
    number = serving.start_asking(QUESTION)
    while other not in serving.tokens:
        assert number not in serving.asked
        serving.step()
    serving.drain()
    assert serving.asked == {number: ""}


@pytest.mark.parametrize("when", ["at once", "half way", "preempted", "done"])
def test_cancelling_frees_everything(model, when):
    serving = served(model)
    number = serving.start_asking(LONG)
    if when in ("half way", "preempted"):
        with in_slices():
            serving.step()
        assert serving.engine.sequences.get(number).num_computed_tokens == 13
    if when == "preempted":
        serving.engine.scheduler.preempt(serving.engine.sequences.get(number))
    if when == "done":
        serving.drain()
    serving.engine.apply(Cancel(number))
    serving.drain() if serving.engine.has_work else serving.step()
    assert serving.asked == {number: "" if when == "done" else None}
    assert_nothing_held(serving)
    kept = serving.fuser.asked.bytes_held
    assert (kept > 0) == (when == "done")


def test_a_step_that_fails_fails_the_question_only(model):
    serving = served(model)
    number = serving.start_asking(QUESTION)
    with patch.object(serving.worker, "run", side_effect=RuntimeError("broken")):
        frame = serving.engine.step(0.0, float("inf"))
    (event,) = frame.events
    assert (event.task_id, event.message) == (number, "RuntimeError: broken")
    assert_nothing_held(serving)


def test_what_is_known_is_not_computed_again(model):
    serving = asked(model)
    steps = []
    run = serving.worker.run
    with patch.object(serving.worker, "run", side_effect=lambda b: steps.append(b) or run(b)):
        number = serving.start_asking(QUESTION)
        serving.drain()
    assert serving.asked[number] == ""
    assert not steps


@pytest.mark.parametrize(
    ("question", "says"), [([], "0 tokens"), (prompt(600, 3), "600 tokens")], ids=["none", "long"]
)
def test_what_does_not_fit_into_one_step_is_refused(model, question, says):
    serving = FusedServing(model)
    number = serving.start_asking(question)
    serving.drain()
    assert says in serving.asked[number]
    assert_nothing_held(serving)


def test_what_does_not_fit_into_the_context_is_refused(model):
    """It would wait for pages for ever."""
    serving = FusedServing(model, pages=2)
    number = serving.start_asking(prompt(40, 3))
    serving.step()
    assert "no question of 40 tokens" in serving.asked[number]
    assert_nothing_held(serving)


def test_what_takes_too_long_is_refused(model):
    serving = FusedServing(model)
    with patch.object(CostSnapshot, "predict_s", return_value=0.3):
        number = serving.start_asking(QUESTION)
    serving.drain()
    assert "predicted to take 0.3 s" in serving.asked[number]


def test_only_so_many_questions_wait(model):
    serving = FusedServing(model)
    numbers = [serving.start_asking([3 + n, 4, 5]) for n in range(ASKINGS_MAX + 1)]
    serving.drain()
    problems = [serving.asked[number] for number in numbers]
    assert problems[:-1] == [""] * ASKINGS_MAX
    assert problems[-1] == "too many questions wait to be run ahead"


def test_the_oldest_question_is_dropped_first():
    kept = AskedQuestions(scorer=None, bytes_max=1000)
    for number in range(3):
        kept.keep("", (number,), np.zeros((1, 1, 100), np.float32))
        kept.knows("", (0,))
    assert [kept.knows("", (number,)) for number in range(3)] == [True, False, True]
    assert kept.bytes_held == 800


def test_a_question_that_is_too_large_to_be_kept_says_so(model):
    serving = served(model)
    with patch.object(serving.fuser.asked, "_bytes_max", 1):
        number = serving.start_asking(QUESTION)
        serving.drain()
    assert "more than are kept" in serving.asked[number]
    assert serving.fuser.asked.bytes_held == 0
    assert_nothing_held(serving)
