"""Constrained decodes on a fake model: its next token is noise, the text has its form."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from heddle.core.commands import Cancel
from heddle.core.frames import Cancelled, Failed
from heddle.core.payloads import Pause, Sampling
from heddle.core.prompts.constraint import Constraint
from heddle.core.results import FinishReason
from heddle.engines.llm.constrained.llguidance_grammars import LlguidanceGrammars
from heddle.engines.llm.text.text_stream import TextDecoder
from tests.unit.engines.llm.fake_worker import EOS, VOCABULARY, Lane, greedy

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
pytest.importorskip("llguidance", reason="llguidance is not installed")

CHARACTERS = '{}":,[] -.0123456789abcdefghijklmnopqrstuvwxyz_'
PROMPT = tuple(range(10, 20))
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "kind": {"enum": ["a", "bb"]},
        "sizes": {"type": "array", "items": {"type": "integer", "maximum": 99}, "maxItems": 3},
    },
    "required": ["name", "kind", "sizes"],
    "additionalProperties": False,
}
JSON = Constraint.json_schema(SCHEMA)
UNCLOSED = Constraint.regex("(a")
CHEAP = {"call": 1.0, "decode_tokens": 1e-6, "prefill_tokens": 1e-6, "context_tokens": 0.0}


@pytest.fixture(scope="module")
def tokenizer_json(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    return saved_tokenizer(path, ["<pad>", "<end>", "<other>"])


def saved_tokenizer(path, specials):
    """Each character is a token; 0 to 2 are special, as in the fake model's vocabulary."""
    assert len(CHARACTERS) == VOCABULARY - 3
    letters = ["Ġ" if character == " " else character for character in CHARACTERS]
    vocabulary = {token: place for place, token in enumerate([*specials, *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(path))
    return path


class ConstrainedLane(Lane):
    """A lane that waits for its grammars as a host does."""

    def __init__(self, tokenizer_json, *, grammars=None, **sizes):
        grammars = grammars or LlguidanceGrammars(tokenizer_json, VOCABULARY, [EOS])
        more = {"decoder": TextDecoder(tokenizer_json), "pages": 64, "tokens": 64, **sizes}
        super().__init__(grammars=grammars, **more)
        self.woken = threading.Event()
        self.engine.subscribe(self.woken.set)

    def finish(self, *tasks):
        """Step until these tasks have ended."""
        ended = (Failed, Cancelled)
        while any(not self._has_ended(task, ended) for task in tasks):
            if not self.engine.has_work:
                assert self.woken.wait(30), "nothing to do, and no grammar came"
            self.woken.clear()
            self.step()

    def _has_ended(self, task, kinds):
        return any(hasattr(e, "result") or isinstance(e, kinds) for e in self.events.get(task, ()))

    def written(self, constraint, task=2, **how):
        self.prefill(task - 1, how.pop("prompt", PROMPT), has_rider=True)
        self.decode(task, task - 1, constraint=constraint, **{"max_tokens": 120, **how})
        self.finish(task)
        return self.result(task)


class FailedAtOnce:
    """Grammars and each grammar of theirs: it is ready when it is begun, and has failed."""

    is_ready, problem = True, "it can't be compiled"

    def begin(self, constraint, written):
        return self

    def subscribe(self, wake):
        pass

    def forced(self):
        raise AssertionError("a decode with a failed grammar was planned")


class HeldConstraint(Constraint):
    """A constraint that is being compiled until `let_go` is set."""

    compiling, let_go = threading.Event(), threading.Event()

    @property
    def value(self):
        self.compiling.set()
        assert self.let_go.wait(60), "it was never let go"
        return super().value


def rows_of(lane):
    """Return the rows of all steps that a lane has computed."""
    return [row for batch in lane.worker.batches for row in batch.rows]


@pytest.fixture(scope="module")
def lane(tokenizer_json):
    one = ConstrainedLane(tokenizer_json)
    yield one
    one.engine.close()


@pytest.fixture
def numbers(request, lane):
    """Task ids that no other test of the shared lane has used."""
    lane.taken = getattr(lane, "taken", 0) + 100
    return lane.taken


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_noise_becomes_what_the_schema_wants(lane, numbers, temperature):
    for seed in range(5):
        prompt = (*PROMPT, 20 + seed)
        task = numbers + 2 * seed + 1
        result = lane.written(JSON, task, prompt=prompt, temperature=temperature, seed=seed)
        jsonschema.validate(json.loads(result.text), SCHEMA)
        assert result.finish_reason is FinishReason.STOP


def test_a_text_that_is_whole_takes_no_further_step(lane, numbers):
    result = lane.written(Constraint.choice(["yes", "no"]), numbers + 1)
    assert result.text in ("yes", "no")
    assert len(result.token_ids) == len(result.text)
    assert len(lane.worker.batches[-1].rows) == 1


def test_other_rows_of_a_batch_stay_as_they_are(lane, numbers):
    lane.prefill(numbers, PROMPT, has_rider=True)
    lane.decode(numbers + 1, numbers, max_tokens=12, constraint=JSON)
    lane.prefill(numbers + 2, PROMPT, has_rider=True)
    lane.decode(numbers + 3, numbers + 2, max_tokens=12)
    lane.finish(numbers + 1, numbers + 3)
    assert lane.result(numbers + 3).token_ids == greedy(PROMPT, 12)
    cut = lane.result(numbers + 1)
    assert (cut.finish_reason, len(cut.token_ids)) == (FinishReason.LENGTH, 12)


@settings(max_examples=40)
@given(data=st.data())
def test_neither_drafts_nor_budget_nor_memory_change_a_text(tokenizer_json, lane, data):
    lane.taken = getattr(lane, "taken", 0) + 100
    temperature = data.draw(st.sampled_from([0.0, 1.0]))
    how = {"temperature": temperature, "seed": data.draw(st.integers(0, 9))}
    plain = lane.written(JSON, lane.taken + 1, **how)
    draft = list(plain.token_ids)
    for place in data.draw(st.lists(st.integers(0, len(draft) - 1), max_size=3)):
        draft[place] = data.draw(st.integers(0, VOCABULARY - 1))
    pages = data.draw(st.sampled_from([12, 14, 64]))  # two sequences of up to 70 tokens
    small = ConstrainedLane(tokenizer_json, pages=pages, page_size=8, tokens=16, context=96)
    for task in (1, 11):
        small.prefill(task, PROMPT, has_rider=True)
        small.decode(task + 1, task, constraint=JSON, max_tokens=80, draft=draft, **how)
    small.finish(2, 12)
    texts = {small.result(2).text, small.result(12).text}
    small.engine.close()
    assert texts == {plain.text}


def test_drafted_and_forced_tokens_are_taken_and_counted(tokenizer_json):
    lane = ConstrainedLane(tokenizer_json, prior_s=CHEAP)
    plain = lane.written(JSON, 2)
    steps = len(lane.worker.batches)
    assert plain.accepted == len(plain.token_ids) - steps > 20, "what is forced"
    drafted = lane.written(JSON, 12, draft=plain.token_ids)
    lane.engine.close()
    assert drafted.text == plain.text
    assert drafted.accepted == len(plain.token_ids) - (len(lane.worker.batches) - steps) > 30
    assert (
        drafted.drafted == drafted.accepted + 1
    )  # the text ends with the last, not judged any more


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_resumed_answer_goes_on_in_the_grammar(tokenizer_json, lane, numbers, cut):
    whole = lane.written(JSON, numbers + 1)
    other = ConstrainedLane(tokenizer_json)
    written = whole.token_ids[:cut]
    resumed = other.written(JSON, prompt=(*PROMPT, *written), continues=cut, resumes=cut)
    other.engine.close()
    assert resumed.text == whole.text


def test_a_pause_keeps_its_place_in_the_grammar(lane, numbers):
    whole = lane.written(JSON, numbers + 1)
    text: tuple[int, ...] = ()
    task = numbers + 3
    while True:
        more = {"continues": len(text)} if text else {}
        prompt = (*PROMPT, *text)
        result = lane.written(JSON, task, prompt=prompt, pause=Pause(after=4), **more)
        text, task = result.token_ids, task + 2
        if not result.finish_reason.is_pause:
            break
    assert result.text == whole.text


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint.choice(["_end._"]), "_end._"),
        (Constraint.choice(["a _other_ b"]), "a _other_ b"),
        (Constraint.regex(r"to: _end\._"), "to: _end._"),
        (Constraint.json_schema({"const": "_end._"}), '"_end._"'),
        (Constraint.json_schema({"enum": [["a_other_b"]]}), '["a_other_b"]'),
        (
            Constraint.json_schema({"const": 1}, before="_other_ ", after=" _end._"),
            "_other_ 1 _end._",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_text_that_spells_a_special_token_is_written_without_that_token(
    tmp_path, constraint, text
):
    specials = ["_pad_", "_end._", "_other_"]
    lane = ConstrainedLane(saved_tokenizer(tmp_path / "tokenizer.json", specials))
    result = lane.written(constraint)
    lane.engine.close()
    assert (result.text, result.finish_reason) == (text, FinishReason.STOP)
    assert min(result.token_ids) >= len(specials)


def test_stop_strings_still_end_a_text(lane, numbers):
    result = lane.written(JSON, numbers + 1, stop=('"kind',))
    assert result.finish_reason is FinishReason.STOP
    assert result.text.startswith('{"name": "')
    assert "kind" not in result.text


def test_a_cancelled_decode_leaves_nothing_that_waits(lane, numbers):
    slow = Constraint.regex("[a-z]{3}" * 50)
    lane.prefill(numbers, PROMPT, has_rider=True)
    lane.decode(numbers + 1, numbers, constraint=slow)
    lane.engine.apply(Cancel(numbers + 1))
    lane.engine.apply(Cancel(numbers))
    lane.finish(numbers + 1, numbers)
    assert isinstance(lane.end(numbers + 1), Cancelled)
    assert lane.written(JSON, numbers + 3).finish_reason is FinishReason.STOP


def test_what_a_grammar_can_not_follow_fails_its_request_alone(lane, numbers):
    impossible = Constraint.regex("(.{0,1000}){0,1000}")
    lane.prefill(numbers, PROMPT, has_rider=True)
    lane.decode(numbers + 1, numbers, max_tokens=200, constraint=impossible)
    lane.prefill(numbers + 2, PROMPT, has_rider=True)
    lane.decode(numbers + 3, numbers + 2, max_tokens=12)
    lane.finish(numbers + 1, numbers + 3)
    end = lane.end(numbers + 1)
    assert isinstance(end, Failed)
    assert end.is_input
    assert "lexer error: too many expressions constructed" in end.message
    assert lane.result(numbers + 3).token_ids == greedy(PROMPT, 12)


def test_a_constraint_that_does_not_compile_fails_its_request_alone(tokenizer_json):
    """A workflow that is written as it runs brings one that no check has seen."""
    lane = ConstrainedLane(tokenizer_json, prior_s=CHEAP)
    other = (*PROMPT, 20)
    lane.prefill(1, PROMPT, has_rider=True)
    lane.decode(2, 1, constraint=UNCLOSED)
    lane.prefill(3, other, has_rider=True)
    lane.decode(4, 3, max_tokens=40)
    lane.finish(2, 4)
    end = lane.end(2)
    assert (type(end), end.is_input) == (Failed, True)
    assert "constraint: regex: unclosed group" in end.message
    assert lane.result(4).token_ids == greedy(other, 40)
    assert sum(len(row.draws) for row in rows_of(lane)) == 40, "it has drawn nothing"
    lane.engine.close()


def test_a_grammar_that_has_failed_at_once_fails_its_decode_before_it_is_planned(tokenizer_json):
    lane = ConstrainedLane(tokenizer_json, grammars=FailedAtOnce(), prior_s=CHEAP)
    lane.prefill(1, PROMPT, has_rider=True)
    lane.decode(2, 1, constraint=JSON)
    lane.step()
    assert lane.end(2).message == "constraint: it can't be compiled"
    assert not any(row.draws for row in rows_of(lane))


def test_a_grammar_that_did_not_compile_forces_and_takes_nothing(tokenizer_json):
    grammars, woken = LlguidanceGrammars(tokenizer_json, VOCABULARY, [EOS]), threading.Event()
    grammars.subscribe(woken.set)
    grammar = grammars.begin(UNCLOSED, (20, 21))
    assert woken.wait(30)
    assert "unclosed group" in grammar.problem
    grammar.write(22)
    assert grammar.forced() == ()
    assert not grammar.is_over
    [mask] = grammar.masks(())
    assert not mask.bits().any()
    grammars.close()


def test_a_running_text_gets_its_masks_while_another_constraint_is_compiled(tokenizer_json):
    grammars = LlguidanceGrammars(tokenizer_json, VOCABULARY, [EOS])
    running = grammars.begin(JSON, ())
    assert running.problem == ""
    held = HeldConstraint.regex("[a-z]+")
    new = grammars.begin(held, ())
    assert held.compiling.wait(30)
    [mask] = running.masks(())
    with ThreadPoolExecutor(1) as beside:
        try:
            assert beside.submit(mask.bits).result(timeout=30).any()
            assert not new.is_ready
        finally:
            held.let_go.set()
    grammars.close()


@pytest.mark.parametrize(
    ("how", "problem"),
    [({"ignore_eos": True}, "drop ignore_eos"), ({}, "this engine constrains no text")],
)
def test_an_engine_says_what_it_can_not_do(tokenizer_json, how, problem):
    one = Lane() if not how else ConstrainedLane(tokenizer_json)
    one.prefill(1, PROMPT)
    one.decode(2, 1, constraint=JSON, **how)
    one.step()
    assert problem in one.end(2).message
    one.engine.close()


def test_two_constraints_that_are_equal_are_one_value():
    assert Sampling(constraint=JSON) == Sampling(constraint=Constraint.json_schema(dict(SCHEMA)))
    assert hash(JSON) == hash(Constraint.json_schema(SCHEMA))
