"""The LLM on virtual time: tokens that depend on every token before them, and nothing else."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from heddle.core.passages import Passage
from heddle.core.payloads import Segment
from heddle.core.prompts.chat_turns import BareText, ChatTurns
from heddle.core.system_text import PromptPart, SystemText
from heddle.engines.llm.step_batch import BatchRow, StepBatch, StepResult
from heddle.simulator.device import SimulatedDevice

VOCABULARY = 997
EOS_ID = 0
HEAD_ID, TAIL_ID = 1, 2  # the chat template before and after a prompt
LINE_EVERY = 5  # every fifth token ends a line, so generated lists have several items
STOP_ONE_IN = 9
COSTS_S: Mapping[str, float] = MappingProxyType(
    {"call": 2e-3, "decode_tokens": 2e-4, "prefill_tokens": 2e-4, "context_tokens": 2e-6}
)
MASK = (1 << 61) - 1


class CostModelLlmWorker:
    """An LlmWorker whose KV cache holds, for each position, a digest of the tokens up to it.

    A wrong page, a stale prefix or a token computed twice changes every token after it, so the
    generated text checks the engine's whole bookkeeping.

    Args:
        device: spends the steps' time.
        slot_count: tokens of the KV cache.
        costs_s: those of its steps [s].
        steady_share: the share of prompts behind which one and the same text is written, as loops
            often write what they have written before.
    """

    def __init__(
        self,
        device: SimulatedDevice,
        slot_count: int,
        costs_s: Mapping[str, float] = COSTS_S,
        *,
        steady_share: float = 0.0,
    ) -> None:
        self._device, self._costs_s, self._steady_share = device, costs_s, steady_share
        self._digests = [0] * slot_count

    def run(self, batch: StepBatch) -> StepResult:
        """Compute one step."""
        decodes = sum(0 < row.queries == len(row.draws) for row in batch.rows)
        costs_s = self._costs_s
        self._device.run(
            costs_s["call"]
            + costs_s["decode_tokens"] * batch.tokens
            + costs_s["context_tokens"] * sum(row.context for row in batch.rows)
            + (costs_s["prefill_tokens"] - costs_s["decode_tokens"]) * (batch.tokens - decodes)
        )
        token_ids, slots = batch.token_ids.tolist(), batch.slots.tolist()
        for row in batch.rows:
            self._write(row, token_ids, slots)
        draws = [
            (self._digests[slots[place]], draw)
            for row in batch.rows
            for place, draw in enumerate(row.draws, row.query_stop - len(row.draws))
        ]
        drawn = tuple(_next_token(end) for end, _ in draws)
        probabilities = tuple(_probability(end) for end, draw in draws if draw.wants_probability)
        return StepResult(drawn, probabilities=probabilities)

    def pack_kv(
        self, slots: NDArray[np.int64], rotations: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.generic], ...]:
        """Copy the digests of these slots out; none is turned. Shapes: slots [n] int64."""
        assert rotations is None or not rotations.any(), "nothing is shared here"
        return (np.array([self._digests[slot] for slot in slots.tolist()], np.int64),)

    def load_kv(self, slots: NDArray[np.int64], block: tuple[NDArray[np.generic], ...]) -> None:
        """Write digests that `pack_kv` copied out. Shapes: slots [n] int64."""
        for slot, digest in zip(slots.tolist(), block[0].tolist(), strict=True):
            self._digests[slot] = digest

    def _write(self, row: BatchRow, token_ids: Sequence[int], slots: Sequence[int]) -> None:
        digest = self._digest_before(row)
        for at in range(row.query_start, row.query_stop):
            digest = (digest * 1_000_003 + token_ids[at] + 1) & MASK
            if token_ids[at] == TAIL_ID and _probability(digest) < self._steady_share:
                digest = TAIL_ID
            self._digests[slots[at]] = digest

    def _digest_before(self, row: BatchRow) -> int:
        position = row.context - row.queries - 1
        if position < 0:
            return 0
        for run in row.runs:
            if position < run.length:
                return self._digests[run.start + position]
            position -= run.length
        raise AssertionError("a row's runs are shorter than its context")


def _next_token(digest: int) -> int:
    mixed = (digest * 0x9E3779B97F4A7C15) >> 24
    if mixed % STOP_ONE_IN == 0:
        return EOS_ID
    return TAIL_ID + 1 + (mixed >> 8) % (VOCABULARY - TAIL_ID - 1)


def _probability(digest: int) -> float:
    """Return how sure the model is of the next token: anything in [0, 1)."""
    return (digest * 0xD1B54A32D192ED03 >> 16) % 1000 / 1000


@dataclass(slots=True)
class WordStream:
    """The text of one generation: one word or line end a token."""

    def push(self, token_ids: Sequence[int]) -> tuple[str, bool]:
        """Return the tokens' text; there are no stop strings here."""
        return "".join("\n" if t % LINE_EVERY == 0 else f"w{t} " for t in token_ids), False

    def finish(self) -> str:
        """Return nothing: no text is held back."""
        return ""


class WordDecoder:
    """A TextDecoder of this vocabulary."""

    def stream(self, stop: tuple[str, ...]) -> WordStream:
        """Return a new stream."""
        return WordStream()


def _text(part: PromptPart) -> str | None:
    if isinstance(part, SystemText | ChatTurns | BareText):
        return part.text
    return part.render() if isinstance(part, Passage) else part


@dataclass(frozen=True, slots=True)
class WordTokenizer:
    """A Tokenizer of this vocabulary: a word is a token."""

    context_tokens_max: int

    def encode_prompt(self, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        """Return the segments of a prompt."""
        texts = [_text(part) for part in parts]
        middle = (Segment(None if text is None else self.encode_slot(text)) for text in texts)
        return (Segment((HEAD_ID,)), *middle, Segment((TAIL_ID,)))

    def check_length(self, parts: Sequence[PromptPart]) -> None:
        """Do nothing: the engine refuses what is too long."""

    def encode_slot(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text."""
        first = TAIL_ID + 1
        return tuple(
            first + zlib.crc32(word.encode()) % (VOCABULARY - first) for word in text.split()
        )
