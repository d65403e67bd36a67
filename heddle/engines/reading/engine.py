"""The reading engine: one batch of windows a step, rows of many tasks together."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.errors import InputError
from heddle.core.frames import Frame, Load
from heddle.core.payloads import ExtractPayload, ReadingText, RerankPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted, Quote, Reranked
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.reading.scheduler import ReadingRow, ReadingScheduler
from heddle.engines.reading.spans import LOWEST_SCORE, Finding
from heddle.engines.reading.whole_words import whole_words, without_half_pairs
from heddle.engines.reading.windows import CutPassage, Window

log = logging.getLogger(__name__)

PRIOR_S: Final[Mapping[str, float]] = MappingProxyType(
    {"call": 2e-3, "tokens": 2.5e-4, "texts": 3e-4}
)
"""The extractor in float32 on one AVX2 core [s]: a step, a token, a passage to tokenise."""
CHARS_PER_TOKEN: Final = 4  # of a passage that is not tokenised yet
PASSAGE_CHARS_MAX: Final = 1_000_000


class ReadingWorker(Protocol):
    """Touches the device."""

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives that the model can carry out."""
        ...

    @property
    def is_padded(self) -> bool:
        """Whether `read` computes each row at the length of the batch's longest."""
        ...

    def cut(self, question: str, passages: Sequence[ReadingText]) -> Sequence[CutPassage]:
        """Return the windows of each passage.

        Raises:
            InputError: the question holds nothing to ask.
        """
        ...

    def read(self, windows: Sequence[Window]) -> Sequence[Finding]:
        """Return the best span of each window, or only its score; no window is empty."""
        ...


@dataclass(slots=True)
class BestQuote:
    """The best span that a passage's windows have up to now, as characters [start, end)."""

    score: float = LOWEST_SCORE
    start: int = 0
    end: int = 0

    def take(self, finding: Finding, window: Window) -> None:
        """Take in a window's finding; of equal ones the one that stands first stays."""
        start = end = 0
        if finding.first >= 0:
            start, end = window.offsets[finding.first][0], window.offsets[finding.last][1]
        if (-finding.score, start) < (-self.score, self.start):
            self.score, self.start, self.end = finding.score, start, end


@dataclass(slots=True)
class PartialReading:
    """A task's result while its windows arrive in any order.

    `missing` counts the windows that are known and not read, and the passages not cut yet.
    """

    payload: ExtractPayload | RerankPayload
    missing: int
    best: list[BestQuote] = field(default_factory=list)
    has_begun: bool = False
    tokens: int = 0
    windows: int = 0
    truncated: int = 0


class ReadingEngine:
    """Reads the passages of all its tasks together.

    Args:
        name: the lane's name.
        epoch: the lane's epoch.
        worker: touches the device.
        clock: measures steps.
        limits: the size of a batch.
        kinds: the primitives it takes; None = all that the worker can carry out.
        threshold: the lowest score of a quote that answers.
        prior_s: the cost model's first guess.
        step_s_max: time that a step may take, where others wait for the device meanwhile [s]; one
            window always fits.
        order: whose passages are read first.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: ReadingWorker,
        clock: Clock,
        *,
        limits: BatchLimits | None = None,
        kinds: frozenset[PrimitiveKind] | None = None,
        threshold: float = 0.0,
        prior_s: Mapping[str, float] = PRIOR_S,
        step_s_max: float = math.inf,
        order: CallOrder = SHORTEST_FIRST,
    ) -> None:
        self._threshold, self._order = threshold, order
        self._worker, self._clock = worker, clock
        self._kinds = worker.kinds if kinds is None else kinds
        self._limits = limits or BatchLimits(is_padded=worker.is_padded)
        self._scheduler = ReadingScheduler(self._limits)
        self._report = StepReport(name, epoch, clock, prior_s)
        self._budget_s, self._step_s_max = math.inf, step_s_max
        self._readings: dict[int, PartialReading] = {}

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return self._kinds

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._report.has_events or bool(self._readings)

    def apply(self, command: Command) -> None:
        """Take a command in; unknown tasks and what a reader has no use for are ignored."""
        match command:
            case Admit(task=task):
                self._admit(task)
            case Cancel(task_id=task_id):
                if self._drop(task_id) is not None:
                    self._report.cancelled(task_id)
            case Steer(budget_s=budget_s, task_id=steered, priority=priority):
                self._budget_s = self._budget_s if budget_s is None else budget_s
                if steered is not None and priority is not None:
                    self._scheduler.reprioritise(steered, priority)
            case _:
                pass

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Tokenise what comes next and read one batch.

        Args:
            now_s: the lane's time [s]; unused, as the engine's own clock times deadlines.
            budget_s: time to work for [s]: bounds the batch, never below one window; inf = the
                time set by Steer, or a full batch.
        """
        self._report.begin()
        budget_s = min(self._budget_s if math.isinf(budget_s) else budget_s, self._step_s_max)
        texts = self._cut()
        batch = self._scheduler.next_batch(
            tokens_max=self._tokens_within(budget_s, texts),
            call_tokens=self._call_tokens(),
            now_s=self._clock.now_s(),
            token_s=self._report.costs.coefficients_s["tokens"],
        )
        self._read([row for row in batch if row.window.ids])
        self._take([(row, None) for row in batch if not row.window.ids])
        return self._report.frame(
            self._features([len(row.window.ids) for row in batch], texts),
            Load(
                running=sum(reading.has_begun for reading in self._readings.values()),
                waiting=self._scheduler.rows_waiting,
            ),
            has_computed=bool(batch),
            has_work=bool(self._readings),
        )

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s]."""
        if not self._scheduler.rows_waiting:
            return 0.0
        new = [passage for _, passages in self._scheduler.uncut() for passage in passages]
        guess = float(self._limits.tokens_max)
        if len(new) == self._scheduler.rows_waiting:  # nothing is tokenised yet
            guess = min(guess, _tokens_of(new))
        return self._report.costs.predict_s(_unread(guess, len(new)))

    # -- tasks ------------------------------------------------------------------------------------

    def _admit(self, task: Task) -> None:
        if task.task_id in self._readings:
            return
        payload = task.payload
        if not isinstance(payload, ExtractPayload | RerankPayload) or task.kind not in self._kinds:
            message = f"{self.name} carries out no {type(payload).__name__}"
            self._report.failed(task.task_id, message, is_input=True)
            return
        problem = _problem(payload)
        if problem:
            self._report.failed(task.task_id, problem, is_input=True)
            return
        best = [BestQuote() for _ in payload.passages]
        reading = PartialReading(payload, payload.rows, best)
        if not payload.rows:
            self._finish(task.task_id, reading)
            return
        self._readings[task.task_id] = reading
        now_s, priority = self._clock.now_s(), task.identity.priority
        unread = _unread(_tokens_of(payload.passages), len(payload.passages))
        rank = self._order.rank(task, now_s, self._report.costs.predict_s(unread))
        deadline_s = now_s + task.seconds_left
        self._scheduler.add(task.task_id, payload.passages, priority, deadline_s, rank)

    def _drop(self, task_id: int) -> PartialReading | None:
        """Forget a task; return its reading, None where there was none."""
        self._scheduler.remove(task_id)
        return self._readings.pop(task_id, None)

    def _fail(self, task_id: int, message: str, *, is_input: bool = False) -> None:
        if self._drop(task_id) is not None:
            self._report.failed(task_id, message, is_input=is_input)

    def _finish(self, task_id: int, reading: PartialReading) -> None:
        if reading.truncated:
            log.info("%d passages were cut to the model's length", reading.truncated)
        scores = tuple(best.score for best in reading.best)
        payload = reading.payload
        if isinstance(payload, RerankPayload):
            self._report.done(task_id, Reranked(scores, reading.tokens, reading.truncated))
            return
        quotes = _quotes(payload, reading.best)
        found = Extracted(quotes, scores, reading.tokens, reading.windows, self._threshold)
        self._report.done(task_id, found)

    # -- a step -----------------------------------------------------------------------------------

    def _cut(self) -> int:
        """Cut the passages that the next batch may choose from; return how many."""
        count = 0
        for task_id, passages in self._scheduler.uncut():
            reading = self._readings[task_id]
            try:
                done = self._worker.cut(reading.payload.question, passages)
            except InputError as error:
                self._fail(task_id, str(error), is_input=True)
                continue
            except Exception as error:  # tokenizers raise several kinds for text that is none
                self._fail(task_id, f"text can't be tokenized: {error}", is_input=True)
                continue
            self._scheduler.cut(task_id, [passage.windows for passage in done])
            for passage in done:
                reading.tokens += sum(len(window.ids) for window in passage.windows)
                reading.windows += sum(bool(window.ids) for window in passage.windows)
                reading.missing += len(passage.windows) - 1
                reading.truncated += passage.is_truncated
            count += len(passages)
        return count

    def _read(self, rows: Sequence[ReadingRow]) -> None:
        """Read a batch; where that fails, read each task's rows alone to find the culprit."""
        if not rows:
            return
        try:
            findings = self._worker.read([row.window for row in rows])
        except Exception as error:
            task_ids = dict.fromkeys(row.task_id for row in rows)
            if len(task_ids) == 1:
                self._fail(rows[0].task_id, f"reading {len(rows)} windows failed: {error}")
                return
            for task_id in task_ids:
                self._read([row for row in rows if row.task_id == task_id])
            return
        self._take(list(zip(rows, findings, strict=True)))

    def _take(self, findings: Sequence[tuple[ReadingRow, Finding | None]]) -> None:
        """Take in what was found in windows; None = there was no text to read."""
        for row, finding in findings:
            reading = self._readings.get(row.task_id)
            if reading is None:
                continue  # it failed in this batch
            if finding is not None and not math.isfinite(finding.score):
                self._fail(row.task_id, f"the score of passage {row.passage} is not finite")
                continue
            if finding is not None:
                reading.best[row.passage].take(finding, row.window)
            reading.has_begun = True
            reading.missing -= 1
            if not reading.missing:
                self._drop(row.task_id)
                self._finish(row.task_id, reading)

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

    def _features(self, lengths: Sequence[int], texts: int) -> dict[str, float]:
        """Return what a step costs by: the tokens computed, and the passages tokenised."""
        rows, longest = len(lengths), max(lengths, default=0)
        tokens = rows * longest if self._limits.is_padded else sum(lengths)
        return {
            "call": float(rows > 0),
            "tokens": float(tokens),
            "unpadded": float(sum(lengths)),
            "texts": float(texts),
            "tokens_max": float(self._limits.tokens_max),
        }


def _tokens_of(passages: Sequence[ReadingText]) -> float:
    """Return about how many tokens passages have."""
    return sum(len(passage.title) + len(passage.text) for passage in passages) / CHARS_PER_TOKEN


def _unread(tokens: float, texts: int) -> dict[str, float]:
    """Return the features of a step over passages that are not tokenised yet."""
    return {"call": 1.0, "tokens": tokens, "texts": float(texts)}


def _problem(payload: ExtractPayload | RerankPayload) -> str:
    """Return why a payload can't be read; "" = it can."""
    if not payload.question.strip():
        return "question is empty: ask something"
    if isinstance(payload, ExtractPayload) and payload.quotes_max < 1:
        return f"quotes_max: need at least 1, got {payload.quotes_max}"
    for place, passage in enumerate(payload.passages):
        chars = len(passage.title) + len(passage.text)
        if chars > PASSAGE_CHARS_MAX:
            return (
                f"passages[{place}] has {chars} characters, and at most {PASSAGE_CHARS_MAX} are "
                "read: split it"
            )
    return ""


def _quotes(payload: ExtractPayload, best: Sequence[BestQuote]) -> tuple[Quote, ...]:
    """Return the quotes of the best passages, made whole; of equal scores the first passage's."""
    ranked = sorted(
        (place for place, quote in enumerate(best) if quote.end),
        key=lambda place: -best[place].score,
    )
    quotes = []
    for place in ranked[: payload.quotes_max]:
        quote = best[place]
        text = payload.passages[place].text
        start, end = without_half_pairs(text, *whole_words(text, quote.start, quote.end))
        quotes.append(Quote(place, start, end, quote.score))
    return tuple(quotes)
