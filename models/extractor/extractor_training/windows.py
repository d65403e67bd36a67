"""A question and a passage as token ids, in windows that the encoder takes."""

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from .answer_spans import Span
from .rows import Passage

CLS, SEP = 101, 102
FULL_STOP = 1012
QUESTION_MAX = 64  # tokens
TITLE_MAX = 24
WINDOW_MAX = 384
OVERLAP = 96  # tokens that neighbouring windows share; more than an answer has


@dataclass(frozen=True, slots=True)
class Window:
    """[CLS] question [SEP] title . part of the passage [SEP].

    first: place of the passage's first token in `ids`.
    offsets: characters [start, end) of each of the passage's tokens.
    """

    ids: list[int]
    n_question: int
    first: int
    offsets: list[Span]

    @property
    def types(self) -> list[int]:
        """0 for the question with its marks, 1 for title and passage."""
        return [0] * (self.n_question + 2) + [1] * (len(self.ids) - self.n_question - 2)


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of an encoder directory, without cutting and filling."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def windows_of(
    tokenizer: Tokenizer, question: str, passage: Passage, longest: int = WINDOW_MAX
) -> list[Window]:
    """Cut a passage into windows of at most `longest` tokens; each holds the whole question."""
    asked = _ids(tokenizer, question)[:QUESTION_MAX]
    title = _ids(tokenizer, passage.title)[:TITLE_MAX]
    head = [CLS, *asked, SEP, *title, *([FULL_STOP] if title else [])]
    body = tokenizer.encode(passage.text, add_special_tokens=False)
    room = longest - len(head) - 1
    step = max(1, room - OVERLAP)
    starts = range(0, max(1, len(body.ids) - OVERLAP), step) if len(body.ids) > room else [0]
    return [
        Window(
            [*head, *body.ids[start : start + room], SEP],
            len(asked),
            len(head),
            body.offsets[start : start + room],
        )
        for start in starts
    ]


def token_spans(window: Window, spans: tuple[Span, ...], longest: int) -> list[Span]:
    """Return the spans of characters that lie in a window as first and last passage token.

    Those of more than `longest` tokens are left out.
    """
    found = set()
    for start, end in spans:
        first = [i for i, (left, right) in enumerate(window.offsets) if left <= start < right]
        last = [i for i, (left, right) in enumerate(window.offsets) if left < end <= right]
        if first and last and 0 <= last[0] - first[0] < longest:
            found.add((first[0], last[0]))
    return sorted(found)


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)
