"""The engine over a worker without a model: one terminal event a task, and its own passages."""

import itertools
import math
import pickle
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from heddle.core.commands import Admit, Cancel, Release, Steer
from heddle.core.errors import InputError
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Failed, Frame
from heddle.core.payloads import EmbedPayload, ExtractPayload, Payload, ReadingText, RerankPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted, KvHandle, Quote, Reranked
from heddle.core.tasks import Identity, Priority, Task
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.reading.engine import PASSAGE_CHARS_MAX, ReadingEngine
from heddle.engines.reading.reading_directory import EXTRACTS
from heddle.engines.reading.spans import LOWEST_SCORE, Finding
from heddle.engines.reading.windows import NO_TEXT, CutPassage, Window

WORDS_MAX = 6
CALL_S, TOKEN_S, TEXT_S = 0.002, 0.0003, 0.0002


@dataclass
class VirtualClock:
    time_s: float = 0.0

    def now_s(self) -> float:
        return self.time_s


@dataclass
class FakeWorker:
    """A word is a token; a window's best span is its longest word, which is also its score."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    kinds: frozenset[PrimitiveKind] = EXTRACTS
    is_padded: bool = False
    batches: list[list[str]] = field(default_factory=list)
    broken: str = "\0"  # a batch with this word fails
    nan: str = "\0"  # a window with this word has no score

    def cut(self, question: str, passages: Sequence[ReadingText]) -> list[CutPassage]:
        if not any(letter.isalnum() for letter in question):
            raise InputError("question holds no letters or digits")
        self.clock.time_s += TEXT_S * len(passages)
        return [self._cut(passage.text) for passage in passages]

    def _cut(self, text: str) -> CutPassage:
        if "\ud800" in text:
            raise TypeError("surrogates not allowed")
        offsets, at = [], 0
        for word in text.split():
            at = text.index(word, at)
            offsets.append((at, at + len(word)))
            at += len(word)
        if not offsets:
            return NO_TEXT
        words = [(text[start:end], (start, end)) for start, end in offsets]
        parts = [words[i : i + WORDS_MAX] for i in range(0, len(words), WORDS_MAX)]
        return CutPassage(
            tuple(
                Window(tuple(w for w, _ in part), 0, 0, tuple(place for _, place in part))
                for part in parts
            )
        )

    def read(self, windows: Sequence[Window]) -> list[Finding]:
        words = [word for window in windows for word in window.ids]
        self.clock.time_s += CALL_S + TOKEN_S * len(words)
        if self.broken in words:
            raise RuntimeError("device lost")
        self.batches.append(words)
        return [self._find(window) for window in windows]

    def _find(self, window: Window) -> Finding:
        if self.nan in window.ids:
            return Finding(math.nan, 0, 0)
        lengths = [len(word) for word in window.ids]
        place = lengths.index(max(lengths))
        return Finding(float(max(lengths)), place, place)


def engine_of(worker: FakeWorker, **limits: int) -> ReadingEngine:
    bounds = BatchLimits(is_padded=worker.is_padded, **limits)
    prior_s = {"call": CALL_S, "tokens": TOKEN_S, "texts": TEXT_S}
    return ReadingEngine("read", 3, worker, worker.clock, limits=bounds, prior_s=prior_s)


def admit(
    engine: ReadingEngine, task_id: int, payload: Payload, priority: Priority = Priority.NORMAL
) -> None:
    is_rerank = isinstance(payload, RerankPayload)
    kind = PrimitiveKind.RERANKING if is_rerank else PrimitiveKind.EXTRACTING
    engine.apply(Admit(Task(task_id, kind, Identity(1, "n", priority=priority), payload)))


def drain(engine: ReadingEngine) -> list[Event]:
    events: list[Event] = []
    while engine.has_work:
        events += engine.step(0.0, math.inf).events
    return events


def extract(*texts: str, question: str = "which?", quotes_max: int = 3) -> ExtractPayload:
    return ExtractPayload(question, tuple(ReadingText("", text) for text in texts), quotes_max)


def rerank(*texts: str) -> RerankPayload:
    return RerankPayload("which?", tuple(ReadingText("", text) for text in texts))


def result_of(engine: ReadingEngine, payload: Payload) -> Extracted | Reranked:
    admit(engine, 1, payload)
    [event] = drain(engine)
    assert isinstance(event, Done), event
    assert isinstance(event.result, Extracted | Reranked)
    return event.result


def test_the_best_quotes_come_first_and_every_passage_has_its_score() -> None:
    result = result_of(engine_of(FakeWorker()), extract("aa b", "", "a bbbb", "ccc", quotes_max=2))
    assert isinstance(result, Extracted)
    assert result.quotes == (Quote(2, 2, 6, 4.0), Quote(3, 0, 3, 3.0))
    assert result.scores == (2.0, LOWEST_SCORE, 4.0, 3.0)
    assert (result.tokens, result.windows) == (5, 3)


def test_the_best_window_of_a_long_passage_counts() -> None:
    text = "a b c d e f g h longest i j k l m"
    result = result_of(engine_of(FakeWorker(), tokens_max=1), extract(text))
    assert isinstance(result, Extracted)
    [quote] = result.quotes
    assert text[quote.start : quote.end] == "longest"
    assert result.windows == 3


def test_of_equal_windows_the_first_is_quoted() -> None:
    text = "a b c d e ff g h i j k ll"
    for is_padded in (True, False):
        worker = FakeWorker(is_padded=is_padded)
        result = result_of(engine_of(worker), extract(text))
        assert isinstance(result, Extracted)
        assert result.quotes[0].start == text.index("ff")


def test_reranking_gives_scores_alone() -> None:
    assert result_of(engine_of(FakeWorker()), rerank("aa", "", "bbb")) == Reranked(
        (2.0, LOWEST_SCORE, 3.0), 2, 0
    )


def test_quotes_are_widened_to_whole_words() -> None:
    worker = FakeWorker()
    engine = engine_of(worker)
    worker._find = lambda window: Finding(1.0, 1, 1)  # type: ignore[method-assign]
    worker._cut = lambda text: CutPassage(  # type: ignore[method-assign]
        (Window((1, 2), 0, 0, ((0, 4), (4, 8))),)
    )
    result = result_of(engine, extract("max_iter"))
    assert isinstance(result, Extracted)
    assert result.quotes == (Quote(0, 0, 8, 1.0),)


def test_quotes_have_no_mark_without_its_partner() -> None:
    worker = FakeWorker()
    engine = engine_of(worker)
    worker._find = lambda window: Finding(1.0, 1, 2)  # type: ignore[method-assign]
    worker._cut = lambda text: CutPassage(  # type: ignore[method-assign]
        (Window((1, 2, 3), 0, 0, ((3, 4), (4, 8), (8, 9))),)
    )
    result = result_of(engine, extract("in `TTIN`."))
    assert isinstance(result, Extracted)
    assert result.quotes == (Quote(0, 4, 8, 1.0),)


def test_no_passages_are_answered_at_once() -> None:
    engine = engine_of(FakeWorker())
    assert result_of(engine, extract()) == Extracted((), ())
    assert result_of(engine, rerank()) == Reranked(())


def test_a_task_gets_the_same_alone_and_among_others() -> None:
    texts = [f"{'x' * (i % 7 + 1)} word{'y' * (i * 5 % 11)} z " * (1 + i % 9) for i in range(40)]
    alone = [result_of(engine_of(FakeWorker()), extract(text)) for text in texts]
    for is_padded, tokens_max in itertools.product((True, False), (1, 30, 500)):
        engine = engine_of(FakeWorker(is_padded=is_padded), tokens_max=tokens_max)
        for task_id, text in enumerate(texts):
            admit(engine, task_id, extract(text))
        found = {event.task_id: event.result for event in drain(engine) if isinstance(event, Done)}
        assert [found[task_id] for task_id in range(len(texts))] == alone


def test_rows_of_several_tasks_share_a_batch_within_the_budget() -> None:
    worker = FakeWorker()
    engine = engine_of(worker, tokens_max=6)
    for task_id in range(4):
        admit(engine, task_id, extract("a b c"))
    drain(engine)
    assert [len(words) for words in worker.batches] == [6, 6]


def test_bulk_waits_for_others_and_can_be_moved() -> None:
    engine = engine_of(FakeWorker())
    admit(engine, 1, extract("bulk"), Priority.BULK)
    admit(engine, 2, extract("normal"))
    assert [event.task_id for event in engine.step(0.0, math.inf).events] == [2]
    admit(engine, 3, extract("normal"))
    engine.apply(Steer(task_id=1, priority=Priority.INTERACTIVE))
    assert [event.task_id for event in drain(engine)] == [1, 3]


def test_a_cancelled_task_ends_once_and_leaves_nothing() -> None:
    engine = engine_of(FakeWorker(), tokens_max=1)
    admit(engine, 1, extract("a b", "c d"))
    engine.step(0.0, math.inf)
    engine.apply(Cancel(1))
    engine.apply(Cancel(1))
    assert drain(engine) == [Cancelled(1)]
    assert not engine.has_work
    assert engine.predicted_step_s() == 0.0


def test_a_budget_bounds_a_step_and_one_window_always_fits() -> None:
    worker = FakeWorker()
    engine = engine_of(worker)
    engine.apply(Steer(budget_s=CALL_S + 7.5 * TOKEN_S + 3 * TEXT_S))
    admit(engine, 1, extract(*["a b c"] * 3))
    frames = [engine.step(0.0, math.inf)]
    assert frames[0].features["tokens"] == 6
    engine.step(0.0, 1e-9)
    assert len(worker.batches[-1]) == 3


def test_predicted_steps_follow_what_waits() -> None:
    engine = engine_of(FakeWorker(), tokens_max=100)
    assert engine.predicted_step_s() == 0.0
    admit(engine, 1, extract("word " * 8))
    short_s = engine.predicted_step_s()
    admit(engine, 2, extract("word " * 5000))
    assert 0 < short_s < engine.predicted_step_s() <= CALL_S + 100 * TOKEN_S + 2 * TEXT_S + 1e-12


def test_frames_say_what_a_step_cost() -> None:
    engine = engine_of(FakeWorker(), tokens_max=7)
    admit(engine, 1, extract("a b c d", "a b c d"))
    frame = engine.step(0.0, math.inf)
    assert frame.features == {
        "call": 1.0,
        "tokens": 4.0,
        "unpadded": 4.0,
        "texts": 2.0,
        "tokens_max": 7.0,
    }
    assert frame.load.running == frame.load.waiting == 1
    assert frame.has_work
    assert frame.costs is not None
    assert pickle.loads(pickle.dumps(frame)) == frame


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (extract("a", question=" \n"), "question is empty"),
        (extract("a", question="?\x00"), "question holds no letters"),
        (extract("a", quotes_max=0), "quotes_max: need at least 1"),
        (extract("a", "b" * (PASSAGE_CHARS_MAX + 1)), r"passages\[1\] has 1000001 characters"),
        (extract("half a \ud800"), "can't be tokenized"),
        (EmbedPayload(("a",)), "carries out no EmbedPayload"),
    ],
)
def test_bad_input_is_refused_with_its_field(payload: Payload, message: str) -> None:
    engine = engine_of(FakeWorker())
    admit(engine, 1, extract("fine"))
    admit(engine, 2, payload)
    events = {event.task_id: event for event in drain(engine)}
    assert isinstance(events[1], Done)
    failed = events[2]
    assert isinstance(failed, Failed)
    assert failed.is_input
    assert re.search(message, failed.message), failed.message


def test_a_kind_that_another_engine_takes_is_refused() -> None:
    worker = FakeWorker()
    kinds = frozenset({PrimitiveKind.EXTRACTING})
    engine = ReadingEngine("read", 1, worker, worker.clock, kinds=kinds)
    assert engine.kinds == kinds
    admit(engine, 1, rerank("a"))
    [event] = drain(engine)
    assert isinstance(event, Failed)


def test_what_breaks_a_batch_fails_its_own_task_alone() -> None:
    worker = FakeWorker(broken="bad", nan="nan")
    engine = engine_of(worker)
    for task_id, text in enumerate(["good", "a bad one", "fine", "a nan here"]):
        admit(engine, task_id, extract(text, "more"))
    events = {event.task_id: event for event in drain(engine)}
    assert [type(events[task_id]) for task_id in range(4)] == [Done, Failed, Done, Failed]
    failed = events[1]
    assert isinstance(failed, Failed)
    assert "device lost" in failed.message
    assert not failed.is_input


def test_unknown_commands_and_tasks_are_ignored() -> None:
    engine = engine_of(FakeWorker())
    engine.apply(Cancel(9))
    engine.apply(Release(KvHandle("read", 1, 1)))
    engine.apply(Steer(task_id=9, priority=Priority.BULK))
    admit(engine, 1, extract("a"))
    admit(engine, 1, extract("again"))
    frame: Frame = engine.step(0.0, math.inf)
    assert [event.task_id for event in frame.events] == [1]
    assert (frame.lane, frame.epoch) == ("read", 3)


@pytest.mark.parametrize("seed", range(20))
def test_every_task_ends_once_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    worker = FakeWorker(is_padded=rng.random() < 0.5, nan="nan")
    engine = engine_of(worker, tokens_max=rng.choice([1, 20, 200]))
    admitted, ended = 0, []
    for _ in range(120):
        match rng.randint(0, 4):
            case 0 | 1:
                texts = [" ".join(rng.choices(["a", "bb", "nan", "ccc"], k=rng.randint(0, 20)))]
                make = rng.choice([extract, rerank])
                admit(engine, admitted, make(*texts * rng.randint(0, 3)), rng.choice([*Priority]))
                admitted += 1
            case 2:
                engine.apply(Cancel(rng.randint(0, max(admitted, 1))))
            case 3:
                worker.broken = rng.choice(["\0", "bb"])
            case _:
                ended += engine.step(0.0, math.inf).events
    ended += drain(engine)
    assert all(isinstance(event, TERMINAL) for event in ended)
    assert sorted(event.task_id for event in ended) == list(range(admitted))
