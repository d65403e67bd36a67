"""The embedding engine: one batch a step, rows from many tasks, each task answered when whole."""

import logging
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.frames import Frame, Load
from heddle.core.payloads import EmbedPayload, TextRole
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.tasks import Priority, Task
from heddle.costs.step_report import StepReport
from heddle.encoder.batch_scheduler import BatchLimits, BatchScheduler, Row
from heddle.encoder.tokenized_text import TokenizedText
from heddle.encoder.tokenizer_thread import TokenizerThread
from heddle.engines.embedding.long_texts import LongTexts, WindowMean
from heddle.engines.embedding.vector_cache import CachedVector, VectorCache

log = logging.getLogger(__name__)

PRIOR_S: Mapping[str, float] = MappingProxyType({"call": 7e-3, "tokens": 3e-4, "texts": 2e-4})
"""MiniLM-L6 in float32 on one AVX2 core [s]: a step, a padded token, a text to tokenise. Up to a
few hundred tokens a text, attention's square is too small to fit beside the tokens."""
NO_PROMPTS: Mapping[TextRole, str] = MappingProxyType({})
CHARS_PER_TOKEN = 4  # of a text that is not tokenised yet
SQUARE_TOKENS = 2048  # of a row whose attention alone takes as long there as all else


class EmbeddingWorker(Protocol):
    """Touches the device."""

    @property
    def dims(self) -> int:
        """Length of a vector."""
        ...

    def tokenize(self, texts: Sequence[str]) -> Sequence[TokenizedText]:
        """Return one entry for each text, its rows no longer than the model takes."""
        ...

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vectors of a batch [len(rows), dims], L2-normalised."""
        ...


@dataclass(slots=True)
class PartialVectors:
    """A task's result while its rows arrive in any order. Shapes: values [n, d] float32.

    `texts` are those to compute, with the model's prompt before each; text i is row `places[i]`
    of the result. `tokenized` counts those whose tokens are known, `cut` holds those cut.
    `means` has the texts that are read in windows, and `text_of` the text of each further window.
    """

    values: NDArray[np.float32]
    missing: int
    tenant: str
    is_cached: bool
    in_windows: bool
    texts: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    tokenized: int = 0
    tokens: int = 0
    cut: set[int] = field(default_factory=set)
    truncated: int = 0
    windowed: int = 0
    means: dict[int, WindowMean] = field(default_factory=dict)
    text_of: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Texts that are tokenised while a step is computed: of which tasks, and what comes of it."""

    wanted: Sequence[tuple[int, Sequence[str]]]
    results: Sequence[PartialVectors]
    tokenized: "Future[Sequence[TokenizedText]]"


class EmbeddingEngine:
    """Embeds the texts of all its tasks together.

    Args:
        name: the lane's name.
        epoch: the lane's epoch.
        worker: touches the device.
        clock: measures steps.
        limits: the size of a batch.
        prior_s: the cost model's first guess.
        prompts: words that the model wants before a text, by its role.
        cache: vectors of earlier queries; bulk tasks neither use nor fill it.
        long_texts: what becomes of texts longer than the model takes, where a task doesn't say.
        step_s_max: time that a step may take, where others wait for the device meanwhile [s]; one
            row always fits.
        row_tokens_max: the longest row that the worker makes of a text.
        tokenizer: tokenises the texts of later steps while one is computed; None = each step first
            tokenises the texts that its batch may be chosen from.
        order: whose texts are embedded first.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: EmbeddingWorker,
        clock: Clock,
        *,
        limits: BatchLimits | None = None,
        prior_s: Mapping[str, float] = PRIOR_S,
        prompts: Mapping[TextRole, str] = NO_PROMPTS,
        cache: VectorCache | None = None,
        long_texts: LongTexts = LongTexts.CUT,
        step_s_max: float = math.inf,
        row_tokens_max: float = math.inf,
        tokenizer: TokenizerThread | None = None,
        order: CallOrder = SHORTEST_FIRST,
    ) -> None:
        self._worker = worker
        self._order = order
        self._tokenizer = tokenizer
        self._ahead: ReadAhead | None = None
        self._prompts = prompts
        self._cache = VectorCache("", "", bytes_max=0) if cache is None else cache
        self._clock = clock
        self._long_texts = long_texts
        self._row_tokens_max = row_tokens_max
        self._limits = limits or BatchLimits()
        self._scheduler: BatchScheduler[str] = BatchScheduler(self._limits)
        self._report = StepReport(name, epoch, clock, prior_s)
        self._budget_s, self._step_s_max = math.inf, step_s_max
        self._results: dict[int, PartialVectors] = {}

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return frozenset({PrimitiveKind.EMBEDDING})

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._report.has_events or bool(self._results)

    def apply(self, command: Command) -> None:
        """Take a command in; unknown tasks and what an encoder has no use for are ignored."""
        match command:
            case Admit(task=task):
                self._admit(task)
            case Cancel(task_id=task_id):
                if self._drop(task_id):
                    self._report.cancelled(task_id)
            case Steer(budget_s=budget_s, task_id=steered, priority=priority):
                self._budget_s = self._budget_s if budget_s is None else budget_s
                if steered is not None and priority is not None:
                    self._scheduler.reprioritise(steered, priority)
            case _:
                pass

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Tokenise what comes next and embed one batch.

        Args:
            now_s: the lane's time [s]; unused, as the engine's own clock times deadlines.
            budget_s: time to work for [s]: bounds the batch, never below one row; inf = the
                time set by Steer, or a full batch.
        """
        self._report.begin()
        budget_s = min(self._budget_s if math.isinf(budget_s) else budget_s, self._step_s_max)
        texts = self._tokenize()
        batch = self._scheduler.next_batch(
            # Tokenising on another thread delays no text that waits for the device.
            tokens_max=self._tokens_within(budget_s, 0 if self._tokenizer else texts),
            call_tokens=self._call_tokens(),
            now_s=self._clock.now_s(),
            token_s=self._report.costs.coefficients_s["tokens"],
        )
        self._tokenize_ahead()
        if batch:
            self._embed(batch)
        running = sum(r.missing < len(r.values) for r in self._results.values())
        return self._report.frame(
            _features([len(row.token_ids) for row in batch], texts, self._limits.tokens_max),
            Load(running=running, waiting=self._scheduler.rows_waiting),
            has_computed=bool(batch),
            has_work=bool(self._results),
        )

    def close(self) -> None:
        """End the thread that tokenises."""
        if self._tokenizer is not None:
            self._tokenizer.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s].

        A row that is longer than a full batch makes a step by itself, and is long enough for
        attention's square to count.
        """
        rows = self._scheduler.rows_waiting
        if not rows:
            return 0.0
        new = [text for _, texts in self._scheduler.untokenized() for text in texts]
        chars = sum(map(len, new))
        # Of some languages each character is a token.
        longest = min(max(map(len, new), default=0) + 2, self._row_tokens_max)
        longest = max(longest, self._scheduler.longest)
        guess: float = self._limits.tokens_max
        if longest > guess:
            guess = longest + longest**2 / SQUARE_TOKENS
        elif len(new) == rows:  # nothing is tokenised yet: few short questions, as a rule
            guess = min(guess, chars // CHARS_PER_TOKEN + 2 * rows)
        features = {"call": 1.0, "tokens": guess, "texts": float(len(new))}
        return self._report.costs.predict_s(features)

    def _admit(self, task: Task) -> None:
        if task.task_id in self._results:
            return
        payload = task.payload
        if not isinstance(payload, EmbedPayload):
            message = f"{self.name} carries out no {type(payload).__name__}"
            self._report.failed(task.task_id, message, is_input=True)
            return
        values = np.zeros((payload.rows, self._worker.dims), np.float32)
        if not payload.rows:
            self._report.done(task.task_id, Vectors(values))
            return
        result = self._begin(task, payload, values)
        if not result.missing:
            self._finish(task.task_id, result)
            return
        self._results[task.task_id] = result
        now_s = self._clock.now_s()
        rank = self._order.rank(task, now_s, self._predicted_s(result.texts))
        deadline_s = now_s + task.seconds_left
        self._scheduler.add(task.task_id, result.texts, task.identity.priority, deadline_s, rank)

    def _predicted_s(self, texts: Sequence[str]) -> float:
        """Return what texts are predicted to take alone, before their tokens are counted [s]."""
        tokens = sum(map(len, texts)) / CHARS_PER_TOKEN + 2 * len(texts)
        features = {"call": 1.0, "tokens": tokens, "texts": float(len(texts))}
        return self._report.costs.predict_s(features)

    def _begin(
        self, task: Task, payload: EmbedPayload, values: NDArray[np.float32]
    ) -> PartialVectors:
        """Return a result with the rows that are cached filled in, and the texts of the others."""
        prompt = self._prompts.get(payload.role, "")
        texts = payload.texts if not prompt else tuple(prompt + text for text in payload.texts)
        identity = task.identity
        is_cached = payload.may_keep and identity.priority is not Priority.BULK
        in_windows = self._long_texts is LongTexts.WINDOW
        if payload.in_windows is not None:
            in_windows = payload.in_windows
        result = PartialVectors(values, payload.rows, identity.tenant, is_cached, in_windows)
        places = []
        for place, text in enumerate(texts):
            known = self._cache.get(text, identity.tenant) if is_cached else None
            if known is None or (known.is_truncated if in_windows else known.is_windowed):
                places.append(place)
                continue
            values[place] = known.values
            result.missing -= 1
            result.tokens += known.tokens
            result.truncated += known.is_truncated
            result.windowed += known.is_windowed
        result.places = tuple(places)
        result.texts = tuple(texts[place] for place in places)
        return result

    def _drop(self, task_id: int) -> bool:
        """Forget a task; return whether it was there."""
        self._scheduler.remove(task_id)
        return self._results.pop(task_id, None) is not None

    def _fail(self, task_id: int, message: str, *, is_input: bool = False) -> None:
        if self._drop(task_id):
            self._report.failed(task_id, message, is_input=is_input)

    def _tokenize(self) -> int:
        """Tokenise the rows that the next batch may choose from; return how many.

        Where another thread goes on with the rest meanwhile, a batch's worth is enough.
        """
        self._take_ahead()
        rows = None if self._tokenizer is None else self._limits.rows_max
        wanted = self._scheduler.untokenized(rows)
        flat = [text for _, texts in wanted for text in texts]
        if not flat:
            return 0
        try:
            done = self._tokens_of(flat)
        except Exception:  # one bad text fails the call: find its task, and keep the others
            return sum(self._tokenize_alone(task_id, texts) for task_id, texts in wanted)
        at = 0
        for task_id, texts in wanted:
            self._take_tokens(task_id, done[at : at + len(texts)])
            at += len(texts)
        return at

    def _tokens_of(self, texts: Sequence[str]) -> Sequence[TokenizedText]:
        tokenize = self._tokenizer or self._worker.tokenize
        return tokenize(texts)

    def _tokenize_ahead(self) -> None:
        """Begin to tokenise what later batches may choose from.

        No more than a batch's worth, so that an urgent text never waits for more than that.
        """
        if self._tokenizer is None:
            return
        wanted = self._scheduler.untokenized(texts_max=self._limits.rows_max)
        if wanted:
            tokenized = self._tokenizer.start([text for _, texts in wanted for text in texts])
            results = [self._results[task_id] for task_id, _ in wanted]
            self._ahead = ReadAhead(wanted, results, tokenized)

    def _take_ahead(self) -> None:
        """Take in what was tokenised during the last step, for the tasks that are still there.

        It is waited for, so that the same commands always make the same batches.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return
        try:
            done = ahead.tokenized.result()
        except Exception:
            return  # the step that needs the text meets the error again, and finds its task
        at = 0
        for (task_id, texts), result in zip(ahead.wanted, ahead.results, strict=True):
            if self._results.get(task_id) is result:
                self._take_tokens(task_id, done[at : at + len(texts)])
            at += len(texts)

    def _tokenize_alone(self, task_id: int, texts: Sequence[str]) -> int:
        try:
            self._take_tokens(task_id, self._tokens_of(texts))
        except Exception as error:
            self._fail(task_id, f"text can't be tokenized: {error}", is_input=True)
        return len(texts)

    def _take_tokens(self, task_id: int, done: Sequence[TokenizedText]) -> None:
        result = self._results[task_id]
        for number, text in enumerate(done, result.tokenized):
            if not text.token_ids:  # pooled, it would be the padding's vector
                where = f"text {result.places[number]} has no tokens for this model"
                self._fail(task_id, f"{where}: leave it out, or give it words", is_input=True)
                return
        self._scheduler.tokenized(task_id, [text.token_ids for text in done])
        for text in done:
            result.tokens += len(text.token_ids)
            if text.windows and result.in_windows:
                self._add_windows(task_id, result, text.windows)
                result.tokens += sum(map(len, text.windows))
            elif text.windows:
                result.cut.add(result.tokenized)
            result.tokenized += 1

    def _add_windows(
        self, task_id: int, result: PartialVectors, windows: Sequence[Sequence[int]]
    ) -> None:
        """Queue the further windows of the text that is being taken in."""
        total = np.zeros(self._worker.dims, np.float32)
        result.means[result.tokenized] = WindowMean(total, 1 + len(windows))
        result.windowed += 1
        for index in self._scheduler.add_windows(task_id, windows):
            result.text_of[index] = result.tokenized

    def _embed(self, batch: Sequence[Row]) -> None:
        """Embed a batch; where that fails, embed each task's rows alone to find the culprit."""
        try:
            vectors = self._worker.embed([row.token_ids for row in batch])
        except Exception as error:
            task_ids = dict.fromkeys(row.task_id for row in batch)
            if len(task_ids) == 1:
                message = f"embedding a batch of {len(batch)} texts failed: {error}"
                self._fail(batch[0].task_id, message)
                return
            for task_id in task_ids:
                self._embed([row for row in batch if row.task_id == task_id])
            return
        finite = np.isfinite(vectors.sum(axis=1))
        for row, vector, is_finite in zip(batch, vectors, finite, strict=True):
            if not is_finite:
                self._fail(row.task_id, f"the vector of text {row.index} is not finite")
            elif row.task_id in self._results:
                self._store(row, vector)

    def _store(self, row: Row, vector: NDArray[np.float32]) -> None:
        result = self._results[row.task_id]
        text = result.text_of.get(row.index, row.index)
        tokens = len(row.token_ids)
        mean = result.means.get(text)
        if mean is not None:
            mean.take(vector, tokens)
            if mean.missing:
                return
            vector, tokens = mean.vector(), mean.tokens
        result.values[result.places[text]] = vector
        if result.is_cached:
            known = CachedVector(vector, tokens, text in result.cut, mean is not None)
            self._cache.put(result.texts[text], result.tenant, known)
        result.missing -= 1
        if not result.missing:
            del self._results[row.task_id]
            self._finish(row.task_id, result)

    def _finish(self, task_id: int, result: PartialVectors) -> None:
        truncated = result.truncated + len(result.cut)
        if truncated:
            log.info("%d of %d texts were cut to the model's length", truncated, len(result.values))
        if result.windowed:
            log.info(
                "%d of %d texts were longer than the model takes and embedded in windows",
                result.windowed,
                len(result.values),
            )
        vectors = Vectors(result.values, result.tokens, truncated, result.windowed)
        self._report.done(task_id, vectors)

    def _tokens_within(self, budget_s: float, texts: int) -> float:
        """Return how many tokens fit a step of this length, after these texts were tokenised."""
        costs = self._report.costs
        token_s = costs.coefficients_s["tokens"]
        if math.isinf(budget_s) or token_s <= 0:
            return math.inf
        left_s = budget_s - costs.predict_s({"call": 1.0, "texts": texts})
        return max(0.0, left_s) / token_s

    def _call_tokens(self) -> float:
        """Return what a step's fixed part costs, in tokens."""
        costs_s = self._report.costs.coefficients_s
        if costs_s["tokens"] <= 0:
            return math.inf
        return costs_s["call"] / costs_s["tokens"]


def _features(lengths: Sequence[int], texts: int, tokens_max: int) -> dict[str, float]:
    """Return what a step costs by: the padded batch, and the texts tokenised for later ones.

    Beside it what its memory allows a step, for the books: it is known in the lane alone.
    """
    rows, longest = len(lengths), max(lengths, default=0)
    return {
        "call": float(rows > 0),
        "tokens": float(rows * longest),
        "squares": float(rows * longest * longest),
        "unpadded": float(sum(lengths)),
        "texts": float(texts),
        "tokens_max": float(tokens_max),
    }
