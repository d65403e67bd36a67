"""Where the prefix, the chunks and the question of a prompt lie."""

from collections.abc import Sequence
from dataclasses import dataclass

from heddle.core.payloads import Segment, SegmentRole


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A retrieved chunk at positions [start, stop) of a prompt, and its id in the corpus."""

    start: int
    stop: int
    token_ids: tuple[int, ...]
    chunk_id: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the chunk."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A prompt of prefix [0, prefix_stop), chunks, question [question_start, tokens).

    The question is all that follows the last chunk, from the literal "Question:" of a preset on;
    text between two chunks belongs to none and is always computed.
    """

    prefix_stop: int
    chunks: tuple[ChunkSpan, ...]
    question_start: int
    tokens: int


def layout_of(segments: Sequence[Segment]) -> PromptLayout | None:
    """Return the layout of a filled prompt; None without a chunk, or with nothing after it.

    Empty chunks are left out: they have no KV.
    """
    chunks, tokens = _chunks(segments)
    if not chunks or chunks[-1].stop == tokens:
        return None
    return PromptLayout(chunks[0].start, chunks, chunks[-1].stop, tokens)


def priming_layout(segments: Sequence[Segment]) -> PromptLayout:
    """Return the layout of a prompt that ends with a chunk, and asks nothing about it."""
    chunks, tokens = _chunks(segments)
    assert chunks, "a priming prompt has no chunk"
    assert chunks[-1].stop == tokens, "a priming prompt doesn't end with its chunk"
    return PromptLayout(chunks[0].start, chunks, tokens, tokens)


def _chunks(segments: Sequence[Segment]) -> tuple[tuple[ChunkSpan, ...], int]:
    """Return the chunks that are not empty, and the tokens of the whole prompt."""
    chunks: list[ChunkSpan] = []
    position = 0
    for segment in segments:
        assert segment.token_ids is not None, "a pending prompt has no layout yet"
        start, position = position, position + len(segment.token_ids)
        if segment.role is SegmentRole.CHUNK and segment.token_ids:
            chunks.append(ChunkSpan(start, position, segment.token_ids, segment.chunk_id))
    return tuple(chunks), position
