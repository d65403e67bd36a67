"""Where the prefix, the chunks and the question of a prompt lie."""

from collections.abc import Sequence
from dataclasses import dataclass

from heddle.core.payloads import Segment, SegmentRole


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A retrieved chunk at positions [start, stop) of a prompt, and its id in the corpus.

    A public one is of a document of no tenant. `collection` is its document's.
    """

    start: int
    stop: int
    token_ids: tuple[int, ...]
    chunk_id: int | None = None
    is_public: bool = False
    collection: str = ""

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

    @property
    def has_question(self) -> bool:
        """Whether anything follows the last chunk."""
        return self.question_start < self.tokens


def layout_of(segments: Sequence[Segment]) -> PromptLayout | None:
    """Return the layout of a filled prompt; None without a chunk.

    Empty chunks are left out: they have no KV.
    """
    chunks: list[ChunkSpan] = []
    position = 0
    for segment in segments:
        assert segment.token_ids is not None, "a pending prompt has no layout yet"
        start, position = position, position + len(segment.token_ids)
        if segment.role is SegmentRole.CHUNK and segment.token_ids:
            span = ChunkSpan(
                start,
                position,
                segment.token_ids,
                segment.chunk_id,
                segment.is_public,
                segment.collection,
            )
            chunks.append(span)
    if not chunks:
        return None
    return PromptLayout(chunks[0].start, tuple(chunks), chunks[-1].stop, position)
