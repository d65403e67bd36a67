"""Grammars by the library llguidance: compiled, kept and asked in threads beside the steps."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError
from heddle.core.prompts.constraint import Constraint
from heddle.engines.llm.constrained.grammar_text import grammar_text, limits, problem_of

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

KEPT_MAX: Final = 64  # compiled constraints; a copy for a generation takes microseconds
WORD_BITS: Final = 32


class LlguidanceGrammars:
    """Grammars of the texts that one model writes; satisfies `Grammars`.

    One thread compiles, and another computes masks: a running text waits for no constraint that
    is new. llguidance lets go of Python's lock meanwhile, so the step goes on. The tokenizer is
    read when the first constraint comes.

    Args:
        tokenizer_json: the model's.
        vocabulary: logits that the model gives for a token.
        end_ids: tokens that end a text.
    """

    def __init__(self, tokenizer_json: Path, vocabulary: int, end_ids: Sequence[int]) -> None:
        self._tokenizer_json = tokenizer_json
        self._vocabulary = vocabulary
        self._end_ids = sorted(end_ids)
        self._compiling = ThreadPoolExecutor(1, thread_name_prefix="heddle-grammar")
        self._masking = ThreadPoolExecutor(1, thread_name_prefix="heddle-masks")
        # Only the thread that compiles touches the next three.
        self._tokenizer: LLTokenizer | None = None
        self._specials: list[str] = []
        self._kept: OrderedDict[Constraint, LLMatcher] = OrderedDict()
        self._wake: Callable[[], None] = lambda: None

    def begin(self, constraint: Constraint, written: Sequence[int]) -> "LlguidanceGrammar":
        """Return a grammar that stands behind the tokens written, once it is ready."""
        matcher = self._compiling.submit(self._matcher, constraint, tuple(written))
        grammar = LlguidanceGrammar(matcher, self._masking, -(-self._vocabulary // WORD_BITS))
        matcher.add_done_callback(lambda _: self._wake())
        return grammar

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the thread that compiles, whenever a grammar has become ready."""
        self._wake = wake

    def close(self) -> None:
        """End the threads."""
        for threads in (self._compiling, self._masking):
            threads.shutdown(wait=True, cancel_futures=True)

    def _matcher(self, constraint: Constraint, written: tuple[int, ...]) -> "LLMatcher":
        matcher = self._compiled(constraint).deep_copy()
        if written and not matcher.is_error():
            matcher.consume_tokens(list(written))
        return matcher

    def _compiled(self, constraint: Constraint) -> "LLMatcher":
        from llguidance import LLMatcher

        found = self._kept.get(constraint)
        if found is None:
            if problem := problem_of(constraint):  # of a workflow that is written as it runs
                raise InputError(problem)
            tokenizer = self._own_tokenizer()
            grammar = grammar_text(constraint, self._specials)
            found = LLMatcher(tokenizer, grammar, limits=limits(), log_level=0)
            self._kept[constraint] = found
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(constraint)
        return found

    def _own_tokenizer(self) -> "LLTokenizer":
        if self._tokenizer is None:
            self._tokenizer = tokenizer_of(self._tokenizer_json, self._vocabulary, self._end_ids)
            self._specials = special_texts(self._tokenizer)
        return self._tokenizer


class LlguidanceGrammar:
    """How far one generation is in its constraint; satisfies `Grammar`."""

    def __init__(
        self, matcher: "Future[LLMatcher]", masking: ThreadPoolExecutor, words: int
    ) -> None:
        self._matcher = matcher
        self._masking = masking
        self._words = words
        self._last: Future[NDArray[np.uint32]] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it is compiled and stands behind the tokens that were written before."""
        return self._matcher.done()

    @property
    def problem(self) -> str:
        """Why it can't go on; empty while it can."""
        error = self._matcher.exception()
        if error is None and self._last is not None:
            error = self._last.exception()
        if error is not None:
            return (
                str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            )
        return first_line(self._matcher.result().get_error())

    @property
    def is_over(self) -> bool:
        """Whether the text is whole, and nothing but its end may follow."""
        matcher = self._settled()
        return matcher is not None and bool(matcher.is_stopped()) and not matcher.is_error()

    def write(self, token: int) -> None:
        """Note the next token of the text."""
        matcher = self._settled()
        if matcher is not None:
            matcher.consume_token(token)

    def forced(self) -> tuple[int, ...]:
        """Return tokens of the text that has to come next; () where there is a choice."""
        matcher = self._settled()
        if matcher is None or matcher.is_error() or matcher.is_stopped():
            return ()
        return tuple(matcher.compute_ff_tokens())

    def masks(self, drafted: Sequence[int]) -> tuple["StepMask", ...]:
        """Begin to compute the mask of the next token, and of the one behind each drafted one."""
        self._last = self._masking.submit(self._bits, tuple(drafted))
        return tuple(StepMask(self._last, place, self._words) for place in range(1 + len(drafted)))

    def _settled(self) -> "LLMatcher | None":
        """Return the matcher once no thread uses it; None: `problem` says why not."""
        if self._last is not None:
            self._last.exception()
        return None if self._matcher.exception() is not None else self._matcher.result()

    def _bits(self, drafted: tuple[int, ...]) -> NDArray[np.uint32]:
        """Return the masks. Shapes: result [1 + drafted, words]."""
        matcher = self._matcher.result()
        bits = np.zeros((1 + len(drafted), self._words), np.uint32)
        taken = 0
        for row in range(1 + len(drafted)):
            if row:
                if matcher.is_stopped() or not matcher.try_consume_tokens([drafted[row - 1]]):
                    break
                taken += 1
            if matcher.is_error():
                break
            matcher.unsafe_compute_mask_ptr(bits[row].ctypes.data, bits[row].nbytes)
        if taken:
            matcher.rollback(taken)
        return bits


@dataclass(frozen=True, slots=True, eq=False)
class StepMask:
    """One row of the masks that a thread computes; satisfies `TokenMask`."""

    computed: "Future[NDArray[np.uint32]]"
    place: int
    words: int

    def bits(self) -> NDArray[np.uint32]:
        """Wait for the mask. Shapes: result [words]."""
        if self.computed.exception() is not None:
            return np.zeros(self.words, np.uint32)
        row: NDArray[np.uint32] = self.computed.result()[self.place]
        return row


def tokenizer_of(
    tokenizer_json: Path, vocabulary: int | None = None, end_ids: Sequence[int] = ()
) -> "LLTokenizer":
    """Read a tokenizer for llguidance.

    Args:
        tokenizer_json: a fast tokenizer's file.
        vocabulary: logits that the model gives; None = as many as there are tokens.
        end_ids: tokens that end a text; () = the tokenizer's own.

    Raises:
        Exception: it is none that llguidance can read; the library has no narrower class.
    """
    from llguidance import LLTokenizer

    return LLTokenizer(str(tokenizer_json), n_vocab=vocabulary, eos_token=list(end_ids) or None)


def special_texts(tokenizer: "LLTokenizer") -> list[str]:
    """Return the texts of a tokenizer's special tokens."""
    ids = filter(tokenizer.is_special_token, range(tokenizer.vocab_size))
    return [text for token in ids if (text := tokenizer.decode_str([token]))]


def first_line(message: str) -> str:
    """Return what llguidance says without the state of its parser behind it."""
    return message.partition("\n<")[0].strip()
