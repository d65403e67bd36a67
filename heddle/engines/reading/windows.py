"""A question and a passage as the rows that a reading model takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heddle.core.errors import ConfigError

Offsets = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class WindowSizes:
    """How a passage is cut [tokens]; the defaults are those that the extractor is trained with.

    Args:
        window_max: the longest row, with question, title and marks.
        overlap: what neighbouring windows of a passage share.
        question_max: a longer question is cut.
        title_max: a longer title is cut.
        span_max: the longest quote.
        is_windowed: whether a longer passage is read in windows; else it is cut to one.

    Raises:
        ConfigError: a window has no room for new tokens of the passage.
    """

    window_max: int = 384
    overlap: int = 96
    question_max: int = 64
    title_max: int = 24
    span_max: int = 20
    is_windowed: bool = True

    def __post_init__(self) -> None:
        for name in ("window_max", "question_max", "title_max", "span_max"):
            if getattr(self, name) < 1:
                raise ConfigError(f"reading {name}: need at least 1, got {getattr(self, name)}")
        if self.overlap < 0:
            raise ConfigError(f"reading overlap: need at least 0, got {self.overlap}")


class PairMarks(NamedTuple):
    """The special tokens of a question with a passage, as the model's tokenizer puts them.

    A row is `before`, question, `between`, title, `stop` where there is a title, passage, `after`.
    Tokens from the title on are of type `passage_type`, those before are of type 0.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    stop: tuple[int, ...]
    passage_type: int

    @property
    def tokens(self) -> int:
        """The tokens of a row with a title that are no words of its texts."""
        return len(self.before) + len(self.between) + len(self.after) + len(self.stop)


class TokenizedPassage(NamedTuple):
    """A passage's tokens; `offsets` are the characters [start, end) of each of its text's."""

    title: Sequence[int]
    text: Sequence[int]
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Window:
    """One row: a question, and a passage or a part of it.

    Args:
        ids: its tokens; none where the passage has no text.
        second: place of the first token after the question and its marks.
        first: place of the passage's first token.
        offsets: characters [start, end) of each of the passage's tokens in this row.
        passage_type: the type of tokens from `second` on.
    """

    ids: Sequence[int]
    second: int
    first: int
    offsets: Offsets
    passage_type: int = 1


class CutPassage(NamedTuple):
    """A passage's windows, at least one; `is_truncated`: they end before the passage does."""

    windows: tuple[Window, ...]
    is_truncated: bool = False


NO_TEXT = CutPassage((Window((), 0, 0, ()),))


def cut(
    marks: PairMarks, sizes: WindowSizes, question: Sequence[int], passage: TokenizedPassage
) -> CutPassage:
    """Cut a passage into windows; each holds the whole question, as far as it is read.

    Without windows (`is_windowed`) only the first one is made.
    """
    asked = question[: sizes.question_max]
    title = passage.title[: sizes.title_max]
    second = len(marks.before) + len(asked) + len(marks.between)
    head = (*marks.before, *asked, *marks.between, *title, *(marks.stop if title else ()))
    room = sizes.window_max - len(head) - len(marks.after)
    is_long = len(passage.text) > room
    step = max(1, room - sizes.overlap)
    starts = range(0, max(1, len(passage.text) - sizes.overlap), step) if is_long else range(1)
    if not sizes.is_windowed:
        starts = starts[:1]
    windows = tuple(
        Window(
            (*head, *passage.text[start : start + room], *marks.after),
            second,
            len(head),
            passage.offsets[start : start + room],
            marks.passage_type,
        )
        for start in starts
    )
    return CutPassage(windows, is_long and not sizes.is_windowed)
