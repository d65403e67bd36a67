"""How long the chunks of a corpus are: in the tokens of the model that embeds them."""

import logging
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError
from heddle.core.payloads import TextRole
from heddle.corpus.chunking import FORM, Chunking
from heddle.corpus.store import CorpusStore
from heddle.corpus.text_counts import WORDS, TextCounter, TokenCounter
from heddle.encoder.encoder_directory import EncoderDirectory

log = logging.getLogger(__name__)

CHUNK_TOKENS: Final = 200
CHUNK_TOKENS_MIN: Final = 32
_STAMP: Final = re.compile(rf"form {FORM}: (\d+) (.+), overlap (\d+)$")


def chunking_for(
    embedder: object,
    store: CorpusStore,
    chunk_tokens: int | None = None,
    overlap: int | None = None,
) -> Chunking:
    """Return how texts are cut: as asked, else as the corpus's last run did, else by default.

    Args:
        embedder: its EncoderDirectory; another value stands for one whose tokenizer is not here,
            such as a remote one. Chunks are then counted in the packaged embedder's tokens, or in
            words if it is not installed.
        store: the corpus.
        chunk_tokens: the most tokens of a chunk with its title.
        overlap: how many tokens of the chunk before it a chunk begins with.

    Raises: ConfigError: a number is too small, or larger than the embedder takes.
    """
    counter, limit = _counter(embedder if isinstance(embedder, EncoderDirectory) else None)
    last = _STAMP.match(store.runs.chunking or "")
    is_same = last is not None and last[2] == counter.unit
    if chunk_tokens is None:
        chunk_tokens = int(last[1]) if last and is_same else min(CHUNK_TOKENS, limit)
    if overlap is None:
        # What was asked for before holds as long as it fits.
        overlap = min(int(last[3]), chunk_tokens // 2) if last and is_same else 0
    least = min(CHUNK_TOKENS_MIN, limit)
    if not least <= chunk_tokens <= limit:
        raise ConfigError(
            f"chunk_tokens must be from {least} to {limit}, which is what the embedder"
            f" takes, not {chunk_tokens}"
        )
    if not 0 <= overlap <= chunk_tokens // 2:
        raise ConfigError(
            f"overlap must be from 0 to half of chunk_tokens ({chunk_tokens // 2}), not {overlap}"
        )
    return Chunking(chunk_tokens, overlap, counter)


def default_chunking() -> Chunking:
    """Return how texts are cut where no embedder is named.

    Raises: ConfigError: the packaged embedder is not installed.
    """
    encoder = EncoderDirectory.open(None)
    return Chunking(min(CHUNK_TOKENS, encoder.max_tokens), 0, _counter(encoder)[0])


def _counter(encoder: EncoderDirectory | None) -> tuple[TextCounter, int]:
    """Return what counts, and the most that the embedder takes of it."""
    if encoder is None:
        try:
            encoder = EncoderDirectory.open(None)
        except ConfigError:
            log.info("the embedder's tokenizer is not here: chunks are counted in words")
            return WORDS, CHUNK_TOKENS // 2
        log.info("the embedder's tokenizer is not here: chunks are counted by %s", encoder.name)
    prompt = encoder.prompts.get(TextRole.PASSAGE, "")
    counter = _tokens(encoder.path / "tokenizer.json", encoder.name, prompt, encoder.lower_case)
    return counter, encoder.max_tokens


@lru_cache(maxsize=4)
def _tokens(file: Path, model: str, prompt: str, lower_case: bool) -> TokenCounter:
    return TokenCounter(file, model, prompt, lower_case)
