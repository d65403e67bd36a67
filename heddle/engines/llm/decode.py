"""A decode task that continues a sequence: its tokens and text, and when it pauses."""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from heddle.core.payloads import NO_PAUSE, Pause, Sampling
from heddle.core.results import KvTransfer
from heddle.engines.llm.draft import NOTHING_DRAFTED, Draft, DraftPrice
from heddle.engines.llm.grammar import Grammar
from heddle.engines.llm.step_batch import Draw


class TextStreamLike(Protocol):
    """Turns one generation's tokens into text, holding back what may still change."""

    def push(self, token_ids: Items[int]) -> tuple[str, bool]:
        """Return text that is safe to show, and whether a stop string was met."""
        ...

    def finish(self) -> str:
        """Return the text that was held back."""
        ...


@dataclass(slots=True, eq=False)
class Output:
    """The text of a decode: its parts so far, and what the next Progress will report of it."""

    stream: TextStreamLike
    parts: list[str] = field(default_factory=list)
    unreported: str = ""

    def resume(self, token_ids: Items[int]) -> None:
        """Begin behind tokens whose text earlier decodes have reported."""
        shown, _ = self.stream.push(token_ids)
        self.parts.append(shown)

    def add(self, text: str) -> None:
        """Add text that may be shown."""
        if text:
            self.parts.append(text)
            self.unreported += text


@dataclass(slots=True, eq=False)
class Decode:
    """A decode task that continues a sequence.

    The first `num_continued_tokens` of `output_ids` were written by earlier decodes. `output` is
    their text. `transfer` says how the prompt came from another lane. `draft` is a likely text,
    and `grammar` says what the text has to be.

    Mutates: `write` adds to `output_ids`; `Generations` moves `reported` along.
    """

    task_id: int
    sampling: Sampling
    report_every: int
    output: Output
    pause: Pause = NO_PAUSE
    output_ids: list[int] = field(default_factory=list)
    num_continued_tokens: int = 0
    reported: int = 0
    transfer: KvTransfer | None = None
    draft: Draft = field(default_factory=Draft)
    grammar: Grammar | None = None

    def take_over(self, token_ids: list[int], resumes: int) -> None:
        """Go on after what was written and reported; the last `resumes` tokens count as its own."""
        self.output_ids = token_ids
        self.reported = len(token_ids)
        self.num_continued_tokens = len(token_ids) - resumes
        for token in token_ids:
            self.draft.write(token)
        self.output.resume(token_ids)

    def write(self, token: int) -> None:
        """Add a token."""
        self.output_ids.append(token)
        self.draft.write(token)
        if self.grammar is not None:
            self.grammar.write(token)

    @property
    def may_draft(self) -> bool:
        """Whether something may be known of its text before it is written."""
        return bool(self.draft.token_ids) or self.grammar is not None

    def offer(self, tokens_max: int, price: DraftPrice) -> tuple[int, ...]:
        """Return the tokens that should come next, as many as are worth being checked."""
        if self.grammar is None or price.token == NOTHING_DRAFTED.token:
            return self.draft.offer(tokens_max, price)
        return self.draft.offer(tokens_max, price, self.grammar.forced())

    @property
    def problem(self) -> str:
        """Why it can't go on; empty while it can."""
        return "" if self.grammar is None else self.grammar.problem

    @property
    def is_over(self) -> bool:
        """Whether its text has its whole form, and nothing may follow."""
        return self.grammar is not None and self.grammar.is_over

    @property
    def is_to_report(self) -> bool:
        """Whether to report its text now: the first token at once."""
        written = len(self.output_ids)
        return bool(self.report_every) and (written == 1 or written % self.report_every == 0)

    @property
    def is_at_interval(self) -> bool:
        """Whether it has written as many tokens of its own as it should before it pauses."""
        own = len(self.output_ids) - self.num_continued_tokens
        return self.pause.after is not None and own >= self.pause.after

    @property
    def num_tokens_left(self) -> int:
        """How many more tokens it may write before it ends or pauses."""
        left = self.sampling.max_tokens - len(self.output_ids)
        if self.pause.after is None:
            return left
        return min(left, self.pause.after + self.num_continued_tokens - len(self.output_ids))

    def doubts(self, probability: float) -> bool:
        """Whether it should pause before a token of this probability."""
        has_begun = len(self.output_ids) > self.num_continued_tokens
        return has_begun and self.pause.below is not None and probability < self.pause.below

    def draws(self, drafted: Items[int]) -> tuple[Draw, ...]:
        """Return how the next token is chosen, and the one behind each drafted one."""
        draws = (self._draw_after(ahead) for ahead in range(1 + len(drafted)))
        if self.grammar is None:
            return tuple(draws)
        masks = self.grammar.masks(drafted)
        return tuple(replace(draw, mask=mask) for draw, mask in zip(draws, masks, strict=True))

    def _draw_after(self, ahead: int) -> Draw:
        """Return how the token behind the next `ahead` ones is chosen, but for its mask.

        It depends on the seed and on the token's number only.
        """
        sampling, wants_probability = self.sampling, self.pause.below is not None
        if sampling.temperature <= 0.0:
            return Draw(wants_probability=wants_probability)
        bits = np.random.Philox(key=sampling.seed, counter=[0, 0, 0, len(self.output_ids) + ahead])
        uniform = float(np.random.Generator(bits).random())
        return Draw(
            sampling.temperature, sampling.top_p, sampling.top_k, uniform, wants_probability
        )
