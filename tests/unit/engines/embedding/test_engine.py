"""The engine over a worker without a model: one terminal event a task, after faults too."""

import itertools
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from heddle.core.commands import Admit, Cancel, Release, Steer
from heddle.core.frames import TERMINAL, Cancelled, Done, Failed, Frame
from heddle.core.payloads import DecodePayload, EmbedPayload, Payload, Sampling, TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Vectors
from heddle.core.tasks import Identity, Priority, Task
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.encoder.tokenized_text import TokenizedText
from heddle.encoder.tokenizer_thread import TokenizerThread
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.vector_cache import VectorCache

DIMS = 4
CALL_S, TOKEN_S, TEXT_S = 0.007, 0.0003, 0.0002
LENGTH_MAX = 30


class VirtualClock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s


class FakeWorker:
    """A vector holds its text's letters, so a swapped row would show."""

    dims = DIMS

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.batches, self.fails = clock, [], False

    def tokenize(self, texts: Sequence[str]) -> list[TokenizedText]:
        if any("\ud800" in text for text in texts):
            raise TypeError("surrogates not allowed")
        self.clock.time_s += TEXT_S * len(texts)
        rows = [
            [list(letters[at : at + LENGTH_MAX]) for at in range(0, len(letters) or 1, LENGTH_MAX)]
            for letters in map(str.encode, texts)
        ]
        return [TokenizedText(first, others) for first, *others in rows]

    def embed(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        if self.fails:
            raise RuntimeError("device lost")
        if any(bytes(row).startswith(b"unknown") for row in rows):
            raise IndexError("index out of range")
        self.batches.append([len(row) for row in rows])
        self.clock.time_s += CALL_S + TOKEN_S * len(rows) * max(map(len, rows))
        return np.array([vector(bytes(row)) for row in rows], np.float32)


def vector(letters: bytes) -> list[float]:
    if letters.startswith(b"nan"):
        return [math.nan] * DIMS
    return [len(letters), sum(letters), letters[0], letters[-1]]


def make(**limits: int) -> tuple[EmbeddingEngine, FakeWorker]:
    clock = VirtualClock()
    worker = FakeWorker(clock)
    return EmbeddingEngine("embed", 3, worker, clock, limits=BatchLimits(**limits)), worker


def admit(
    engine: EmbeddingEngine,
    task_id: int,
    texts: Sequence[str],
    priority: Priority = Priority.NORMAL,
    payload: Payload | None = None,
) -> None:
    identity = Identity(task_id, "n", priority=priority)
    work = payload or EmbedPayload(tuple(texts))
    engine.apply(Admit(Task(task_id, PrimitiveKind.EMBEDDING, identity, work)))


def run(engine: EmbeddingEngine) -> tuple[dict[int, object], list[Frame]]:
    terminal: dict[int, object] = {}
    frames = []
    while engine.has_work:
        frame = engine.step(0.0, math.inf)
        frames.append(frame)
        for event in frame.events:
            assert isinstance(event, TERMINAL)
            assert event.task_id not in terminal
            terminal[event.task_id] = event
    return terminal, frames


def vectors_of(event: object) -> Vectors:
    assert isinstance(event, Done)
    assert isinstance(event.result, Vectors)
    return event.result


def test_rows_come_back_in_the_order_of_the_payload() -> None:
    rng = random.Random(1)
    texts = {
        t: ["".join(rng.choices("abcdefg", k=rng.randint(1, 40))) for _ in range(rng.randint(1, 9))]
        for t in range(1, 20)
    }
    engine, worker = make(tokens_max=120, rows_max=6, window_rows=20)
    for task_id, rows in texts.items():
        admit(engine, task_id, rows)
    terminal, frames = run(engine)
    assert set(terminal) == set(texts)
    for task_id, rows in texts.items():
        result = vectors_of(terminal[task_id])
        expected = [vector(row.encode()[:LENGTH_MAX]) for row in rows]
        assert result.values.dtype == np.float32
        np.testing.assert_array_equal(result.values, np.array(expected, np.float32))
        assert result.tokens == sum(min(len(r), LENGTH_MAX) for r in rows)
        assert result.truncated == sum(len(r) > LENGTH_MAX for r in rows)
    assert any(len(batch) > 1 for batch in worker.batches)
    assert len(frames) == len(worker.batches)
    assert frames[-1].load.waiting == frames[-1].load.running == 0
    assert not frames[-1].has_work


def test_no_texts_are_answered_with_no_vectors() -> None:
    engine, worker = make()
    admit(engine, 1, [])
    terminal, _ = run(engine)
    assert vectors_of(terminal[1]).values.shape == (0, DIMS)
    assert worker.batches == []


def test_cancel_at_any_step_answers_once_and_frees_everything() -> None:
    for steps in range(6):
        engine, _ = make(rows_max=1)
        for task_id in (1, 2):
            admit(engine, task_id, ["a", "b"])
        frames = [engine.step(0.0, math.inf) for _ in range(steps)]
        engine.apply(Cancel(1))
        engine.apply(Cancel(1))
        frames += run(engine)[1]
        events = [e for f in frames for e in f.events]
        assert sorted(e.task_id for e in events) == [1, 2]
        assert isinstance(next(e for e in events if e.task_id == 1), Cancelled) == (steps < 2)
        assert not engine.has_work
        assert frames == [] or frames[-1].load.waiting == 0


def test_a_failed_batch_fails_its_tasks_and_the_engine_goes_on() -> None:
    engine, worker = make(rows_max=2)
    admit(engine, 1, ["a", "b", "c"])
    admit(engine, 2, ["d", "e", "f"])
    worker.fails = True
    (event,) = engine.step(0.0, math.inf).events
    assert isinstance(event, Failed)
    assert event.task_id == 1
    assert "device lost" in event.message
    assert not event.is_input
    worker.fails = False
    terminal, _ = run(engine)
    assert set(terminal) == {2}
    assert vectors_of(terminal[2]).values.shape == (3, DIMS)


def test_a_text_that_cannot_be_tokenised_fails_its_task_alone() -> None:
    engine, _ = make()
    admit(engine, 1, ["fine"])
    admit(engine, 2, ["ok", "bad \ud800"])
    admit(engine, 3, ["also fine"])
    terminal, _ = run(engine)
    assert isinstance(terminal[2], Failed)
    assert terminal[2].is_input
    assert isinstance(terminal[1], Done)
    assert isinstance(terminal[3], Done)


@pytest.mark.parametrize("texts", [["", "b"], ["b", ""]])
def test_a_text_without_tokens_fails_its_task_alone_and_is_named(texts: list[str]) -> None:
    """A model whose tokenizer adds no special tokens has nothing to pool of it."""
    engine, _ = make()
    admit(engine, 1, ["fine"])
    admit(engine, 2, texts)
    terminal, _ = run(engine)
    assert isinstance(terminal[1], Done)
    assert isinstance(terminal[2], Failed)
    assert terminal[2].is_input
    assert f"text {texts.index('')} has no tokens" in terminal[2].message


def test_a_row_that_cannot_be_embedded_fails_its_task_alone() -> None:
    engine, _ = make()
    for task_id, text in enumerate(["fine", "unknown", "also"], 1):
        admit(engine, task_id, [text, "ok"])
    terminal, _ = run(engine)
    assert vectors_of(terminal[1]).values[0].tolist() == vector(b"fine")
    assert vectors_of(terminal[3]).values[0].tolist() == vector(b"also")
    assert isinstance(terminal[2], Failed)
    assert "index out of range" in terminal[2].message


def test_a_vector_that_is_not_finite_fails_its_task_alone() -> None:
    engine, _ = make()
    admit(engine, 1, ["fine", "fin2"])
    admit(engine, 2, ["nan1", "nan2", "good"])
    terminal, _ = run(engine)
    assert isinstance(terminal[1], Done)
    assert isinstance(terminal[2], Failed)
    assert "not finite" in terminal[2].message


def test_foreign_payloads_and_unknown_tasks() -> None:
    engine, _ = make()
    admit(engine, 1, [], payload=DecodePayload(5, Sampling()))
    engine.apply(Cancel(77))
    engine.apply(Steer(task_id=77, priority=Priority.BULK))
    engine.apply(Release(KvHandle("embed", 3, 1)))
    terminal, _ = run(engine)
    assert set(terminal) == {1}
    assert isinstance(terminal[1], Failed)


def test_admitting_a_task_twice_counts_once() -> None:
    engine, worker = make(rows_max=1)
    admit(engine, 1, ["a", "bb"])
    engine.step(0.0, math.inf)
    admit(engine, 1, ["a", "bb"])
    terminal, _ = run(engine)
    assert set(terminal) == {1}
    assert worker.batches == [[1], [2]]


def test_urgent_tasks_come_first_and_steer_makes_urgent() -> None:
    engine, _ = make(rows_max=1)
    admit(engine, 1, ["a"], Priority.BULK)
    admit(engine, 2, ["b"], Priority.BULK)
    admit(engine, 3, ["c"], Priority.INTERACTIVE)
    engine.apply(Steer(task_id=2, priority=Priority.NORMAL))
    assert list(run(engine)[0]) == [3, 2, 1]


@pytest.mark.parametrize("steered", [False, True])
def test_a_step_keeps_to_its_time_budget(steered: bool) -> None:
    engine, worker = make(tokens_max=10_000, rows_max=100)
    admit(engine, 1, ["abcdefghij"] * 140)
    if steered:
        engine.apply(Steer(budget_s=0.1))
    for _ in range(4):
        frame = engine.step(0.0, math.inf if steered else 0.1)
        assert frame.seconds <= 0.1 * 1.001
    assert len(worker.batches[1]) >= 25  # 0.1 s hold 30 rows
    frame = engine.step(0.0, 1e-9)
    assert frame.features["tokens"] == 10.0


@pytest.mark.parametrize(("step_s_max", "rows"), [(0.02, 4), (0.001, 1), (math.inf, 30)])
def test_beside_decoding_no_step_takes_longer_than_it_may_unless_one_row_does(
    step_s_max: float, rows: int
) -> None:
    clock = VirtualClock()
    worker = FakeWorker(clock)
    engine = EmbeddingEngine("embed", 3, worker, clock, step_s_max=step_s_max)
    admit(engine, 1, ["abcdefghij"] * 30)
    engine.apply(Steer(budget_s=0.5))
    frames = run(engine)[1]
    assert max(map(len, worker.batches)) == rows
    assert rows == 1 or max(frame.seconds for frame in frames) <= step_s_max


def test_a_text_in_windows_is_their_mean_by_tokens() -> None:
    clock = VirtualClock()
    cache = VectorCache("m", "f", 1 << 20)
    engine = EmbeddingEngine(
        "embed", 3, FakeWorker(clock), clock, cache=cache, long_texts=LongTexts.WINDOW
    )
    long, short = "a" * LENGTH_MAX + "b" * LENGTH_MAX + "c" * 5, "dd"
    admit(engine, 1, [short, long, short + "e"])
    found = vectors_of(run(engine)[0][1])
    parts = [(vector(part.encode()), len(part)) for part in (long[:30], long[30:60], long[60:])]
    mean = sum(np.array(values) * tokens for values, tokens in parts)
    np.testing.assert_allclose(found.values[1], mean / np.linalg.norm(mean), rtol=1e-6)
    np.testing.assert_array_equal(found.values[0], vector(b"dd"))
    np.testing.assert_array_equal(found.values[2], vector(b"dde"))
    assert (found.windowed, found.truncated, found.tokens) == (1, 0, 65 + 2 + 3)
    admit(engine, 2, [long])  # from the cache
    again = vectors_of(run(engine)[0][2])
    np.testing.assert_array_equal(again.values[0], found.values[1])
    assert (again.windowed, again.tokens) == (1, 65)


@pytest.mark.parametrize("of_the_lane", list(LongTexts))
def test_a_task_says_itself_what_becomes_of_long_texts(of_the_lane: LongTexts) -> None:
    clock = VirtualClock()
    cache = VectorCache("m", "f", 1 << 20)
    engine = EmbeddingEngine(
        "embed", 3, FakeWorker(clock), clock, cache=cache, long_texts=of_the_lane
    )
    long = "a" * LENGTH_MAX + "b" * 5
    for task_id, in_windows in enumerate([False, True, True, False, None]):
        admit(engine, task_id, [], payload=EmbedPayload((long,), in_windows=in_windows))
        if in_windows is None:
            in_windows = of_the_lane is LongTexts.WINDOW
        found = vectors_of(run(engine)[0][task_id])
        assert (found.truncated, found.windowed) == (not in_windows, in_windows)
        assert found.tokens == LENGTH_MAX + 5 * in_windows
        is_cut = np.array_equal(found.values[0], vector(long[:LENGTH_MAX].encode()))
        assert is_cut == (not in_windows)


def test_a_text_in_windows_can_be_cancelled_between_them() -> None:
    clock = VirtualClock()
    engine = EmbeddingEngine(
        "embed",
        3,
        FakeWorker(clock),
        clock,
        limits=BatchLimits(30, 1),
        long_texts=LongTexts.WINDOW,
    )
    admit(engine, 1, ["a" * 200])
    engine.step(0.0, math.inf)
    engine.apply(Cancel(1))
    assert run(engine)[0] == {1: Cancelled(1)}


def threaded(**limits: int) -> tuple[EmbeddingEngine, FakeWorker, list[int]]:
    """An engine with a tokenising thread, and how many texts each of its calls had."""
    clock = VirtualClock()
    worker = FakeWorker(clock)
    calls: list[int] = []

    def tokenize(texts: Sequence[str]) -> list[TokenizedText]:
        calls.append(len(texts))
        return FakeWorker(VirtualClock()).tokenize(texts)  # takes none of the lane's time

    engine = EmbeddingEngine(
        "embed", 3, worker, clock, limits=BatchLimits(**limits), tokenizer=TokenizerThread(tokenize)
    )
    return engine, worker, calls


def test_a_batchs_worth_is_tokenised_first_and_the_rest_beside_the_step() -> None:
    engine, worker, calls = threaded(rows_max=2, window_rows=6)
    rows = ["a" * length for length in range(1, 11)]
    admit(engine, 1, rows)
    result = vectors_of(run(engine)[0][1])
    assert calls == [2] * 5
    assert worker.batches[0] == [1, 2]
    expected = [vector(row.encode()) for row in rows]
    np.testing.assert_array_equal(result.values, np.array(expected, np.float32))
    assert result.tokens == sum(map(len, rows))
    engine.close()


def test_urgent_texts_wait_for_no_step_to_be_tokenised() -> None:
    engine, worker, _ = threaded(rows_max=2, window_rows=6)
    admit(engine, 1, ["a"] * 10, Priority.BULK)
    engine.step(0.0, math.inf)
    admit(engine, 2, ["urgent"], Priority.INTERACTIVE)
    (event,) = engine.step(0.0, math.inf).events
    assert isinstance(event, Done)
    assert event.task_id == 2
    assert worker.batches[1] == [6]
    engine.close()


def test_what_was_tokenised_for_a_task_that_is_gone_is_dropped() -> None:
    engine, _, _ = threaded(rows_max=2, window_rows=6)
    admit(engine, 1, ["aa", "b"] * 4)
    engine.step(0.0, math.inf)
    engine.apply(Cancel(1))
    admit(engine, 1, ["eeee"] * 8)  # another task of the same id
    assert engine.step(0.0, math.inf).events == (Cancelled(1),)
    expected = np.array([vector(b"eeee")] * 8, np.float32)
    np.testing.assert_array_equal(vectors_of(run(engine)[0][1]).values, expected)
    engine.close()


def test_a_text_that_cannot_be_tokenised_beside_a_step_fails_its_task_alone() -> None:
    engine, _, _ = threaded(rows_max=2, window_rows=6)
    admit(engine, 1, ["fine"] * 3)
    admit(engine, 2, ["ok", "bad \ud800"])
    admit(engine, 3, ["also fine"] * 3)
    terminal, _ = run(engine)
    assert isinstance(terminal[2], Failed)
    assert terminal[2].is_input
    assert [len(vectors_of(terminal[task_id]).values) for task_id in (1, 3)] == [3, 3]
    engine.close()


def test_what_another_thread_tokenises_takes_no_time_of_the_devices() -> None:
    """A step beside decoding holds as many rows as the device computes in its time."""
    clock = VirtualClock()
    worker = FakeWorker(clock)
    thread = TokenizerThread(FakeWorker(VirtualClock()).tokenize)
    engine = EmbeddingEngine("embed", 3, worker, clock, step_s_max=0.02, tokenizer=thread)
    admit(engine, 1, ["abcdefghij"] * 64)
    engine.step(0.0, math.inf)
    assert worker.batches == [[10] * 4]
    engine.close()


def test_the_cost_model_learns_and_predicts() -> None:
    engine, _ = make(tokens_max=200)
    rng = random.Random(4)
    for task_id in range(60):
        admit(engine, task_id, ["x" * rng.randint(1, 30) for _ in range(rng.randint(1, 8))])
    frames = run(engine)[1]
    costs = frames[-1].costs
    assert costs is not None
    for frame in frames[20:]:
        assert costs.predict_s(frame.features) == pytest.approx(frame.seconds, rel=0.05)
    assert engine.predicted_step_s() == 0.0
    admit(engine, 99, ["x" * 20])
    predicted = engine.predicted_step_s()
    assert predicted == pytest.approx(engine.step(0.0, math.inf).seconds, rel=0.3)


def test_a_row_longer_than_a_batch_is_predicted_at_its_own_length() -> None:
    clock = VirtualClock()
    engine = EmbeddingEngine(
        "embed",
        3,
        FakeWorker(clock),
        clock,
        limits=BatchLimits(tokens_max=4),
        row_tokens_max=LENGTH_MAX,
    )
    for task_id in range(40):
        admit(engine, task_id, ["x" * (1 + task_id % LENGTH_MAX)])
        run(engine)
    for task_id in (98, 99):
        admit(engine, task_id, ["x" * 10 * LENGTH_MAX])  # not tokenised yet, and is cut
        assert engine.predicted_step_s() == pytest.approx(CALL_S + LENGTH_MAX * TOKEN_S, rel=0.3)
    engine.step(0.0, math.inf)
    predicted = engine.predicted_step_s()  # of the second one, which is
    assert predicted == pytest.approx(engine.step(0.0, math.inf).seconds, rel=0.1)


def test_frames_carry_lane_and_epoch_and_pickle() -> None:
    engine, _ = make()
    admit(engine, 1, ["a"])
    frame = engine.step(0.0, math.inf)
    again = pickle.loads(pickle.dumps(frame))
    assert (again.lane, again.epoch) == ("embed", 3)
    assert frame.features == {
        "call": 1.0,
        "tokens": 1.0,
        "squares": 1.0,
        "unpadded": 1.0,
        "texts": 1.0,
        "tokens_max": 512.0,
    }


def test_random_commands_end_every_task_exactly_once() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        engine, worker = make(tokens_max=40, rows_max=4, window_rows=6)
        ids = itertools.count()
        ended: list[int] = []
        admitted = 0
        for _ in range(40):
            match rng.randint(0, 5):
                case 0 | 1:
                    texts = ["t" * rng.randint(1, 40) for _ in range(rng.randint(0, 5))]
                    admit(engine, next(ids), texts, rng.choice(list(Priority)))
                    admitted += 1
                case 2:
                    engine.apply(Cancel(rng.randint(0, max(admitted, 1))))
                case 3:
                    worker.fails = rng.random() < 0.2
                case _:
                    ended += [e.task_id for e in engine.step(0.0, math.inf).events]
        worker.fails = False
        while engine.has_work:
            ended += [e.task_id for e in engine.step(0.0, math.inf).events]
        assert sorted(ended) == list(range(admitted))


def test_what_decides_imports_no_torch() -> None:
    modules = "engines.embedding.build", "engines.embedding.engine", "encoder.batch_scheduler"
    names = ", ".join(f"heddle.{m}" for m in (*modules, "encoder.encoder_directory"))
    heavy = "{'torch', 'transformers', 'faiss', 'tokenizers'}"
    code = f"import sys, {names}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PROMPTS = {TextRole.QUERY: "query: ", TextRole.PASSAGE: "passage: "}


def cached_engine(bytes_max: int = 1 << 20) -> tuple[EmbeddingEngine, FakeWorker]:
    worker = FakeWorker(VirtualClock())
    cache = VectorCache("m", "float32", bytes_max)
    engine = EmbeddingEngine("embed", 1, worker, worker.clock, prompts=PROMPTS, cache=cache)
    return engine, worker


def answers(engine: EmbeddingEngine) -> dict[int, Vectors]:
    done = {}
    while engine.has_work:
        for event in engine.step(0.0, math.inf).events:
            assert isinstance(event, Done)
            done[event.task_id] = event.result
    return done


@pytest.mark.parametrize(("role", "prompt"), [(TextRole.PLAIN, ""), *PROMPTS.items()])
def test_the_models_prompt_stands_before_a_text_of_its_role(role: TextRole, prompt: str) -> None:
    engine, _ = cached_engine()
    admit(engine, 1, [], payload=EmbedPayload(("abc",), role))
    np.testing.assert_array_equal(answers(engine)[1].values[0], vector(f"{prompt}abc".encode()))


def test_a_query_that_came_before_is_not_computed_again() -> None:
    engine, worker = cached_engine()
    admit(engine, 1, ["one", "two"])
    first = answers(engine)[1]
    batches = len(worker.batches)
    admit(engine, 2, ["two", "three", "one"])
    second = answers(engine)[2]
    assert worker.batches[batches:] == [[len("three")]]
    np.testing.assert_array_equal(second.values[[2, 0]], first.values)
    np.testing.assert_array_equal(second.values[1], vector(b"three"))
    assert second.tokens == len("onetwothree")


def test_a_task_whose_texts_are_all_cached_is_answered_without_a_batch() -> None:
    engine, worker = cached_engine()
    long = "x" * (LENGTH_MAX + 1)
    admit(engine, 1, [long])
    first = answers(engine)[1]
    admit(engine, 2, [long])
    again = answers(engine)[2]
    assert len(worker.batches) == 1
    assert (again.tokens, again.truncated) == (first.tokens, 1)


def test_bulk_neither_fills_nor_uses_the_cache() -> None:
    engine, worker = cached_engine()
    for task_id, priority in enumerate([Priority.BULK, Priority.NORMAL, Priority.BULK]):
        admit(engine, task_id, ["same"], priority)
        answers(engine)
    assert len(worker.batches) == 3


def test_the_cache_does_not_tell_one_tenant_of_another() -> None:
    engine, worker = cached_engine()
    for task_id, tenant in enumerate(["a", "b", "a"]):
        identity = Identity(task_id, "n", tenant=tenant)
        payload = EmbedPayload(("same",))
        engine.apply(Admit(Task(task_id, PrimitiveKind.EMBEDDING, identity, payload)))
        answers(engine)
    assert len(worker.batches) == 2
