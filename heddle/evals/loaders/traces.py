"""Production arrivals: the trace_* files. They give times and lengths, never text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heddle.evals.row import Row, json_lines

PARTS = ("system", "passages", "history", "web", "user")
BLOCK_TOKENS = 512  # of the Mooncake trace


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A piece of a prompt: equal (kind, id) is equal content, in `tokens` tokens."""

    kind: str
    id: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """An arrival. `content` is the prompt's parts in order; empty where the trace has none.

    Mooncake's blocks are prefix blocks, so its last one may be shorter than it says.
    """

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    content: tuple[ContentPart, ...] = ()


def read_trace(path: Path) -> Iterator[TracedRequest]:
    """Give a trace's requests in order of arrival.

    Raises:
        InputError: the file or a field is not as it should be.
    """
    for row in json_lines(path):
        yield TracedRequest(row.number("t"), row.whole("in"), row.whole("out"), _content(row))


def _content(row: Row) -> tuple[ContentPart, ...]:
    if row.has("blocks"):
        return tuple(ContentPart("block", number, BLOCK_TOKENS) for number in row.wholes("blocks"))
    return tuple(
        ContentPart(kind, content_id, tokens)
        for kind in PARTS
        if row.has(kind)
        for content_id, tokens in row.pairs(kind)
    )
