"""How texts of a corpus are cut: as asked, as before, or by default."""

from pathlib import Path

import pytest

from heddle.app.indexing import chunk_lengths
from heddle.app.indexing.chunk_lengths import chunking_for, default_chunking
from heddle.core.errors import ConfigError
from heddle.corpus.store import CorpusStore
from heddle.corpus.text_counts import WORDS
from heddle.encoder.encoder_directory import EncoderDirectory
from tests.helpers.logged import logged

ENCODER = EncoderDirectory.open(None)


@pytest.fixture
def store(tmp_path: Path):
    with CorpusStore.open(tmp_path, create=True) as opened:
        yield opened


def test_by_default_chunks_are_of_middling_length(store):
    found = chunking_for(ENCODER, store)
    assert (found.size, found.overlap) == (200, 0)
    assert found.counter.unit == f"tokens of {ENCODER.name}"
    assert default_chunking().stamp == found.stamp


def test_what_was_asked_for_holds_until_something_else_is(store):
    store.runs.set_chunking(chunking_for(ENCODER, store, 128, 16).stamp)
    again = chunking_for(ENCODER, store)
    assert (again.size, again.overlap) == (128, 16)
    assert chunking_for(ENCODER, store, overlap=0).size == 128
    assert chunking_for(ENCODER, store, 32).overlap == 16
    assert chunking_for(ENCODER, store, 220).overlap == 16


def test_the_settings_of_an_older_form_are_not_taken_over(store):
    store.runs.set_chunking("words_max=120 overlap_words=0 chars_max=2000")
    assert chunking_for(ENCODER, store).size == 200


@pytest.mark.parametrize(
    ("tokens", "overlap", "reason"),
    [
        (31, None, "chunk_tokens must be from 32 to 256, .* not 31"),
        (257, None, "chunk_tokens must be from 32 to 256, .* not 257"),
        (64, 33, r"overlap must be from 0 to half of chunk_tokens \(32\), not 33"),
        (64, -1, "overlap must be"),
    ],
)
def test_numbers_that_do_not_fit_are_named(store, tokens, overlap, reason):
    with pytest.raises(ConfigError, match=reason):
        chunking_for(ENCODER, store, tokens, overlap)


def test_an_embedder_elsewhere_is_counted_by_the_packaged_one(store, monkeypatch):
    with logged(chunk_lengths.log) as lines:
        assert chunking_for(None, store).counter.unit == f"tokens of {ENCODER.name}"
    assert any("chunks are counted by" in line for line in lines)

    def missing(model: str | None) -> EncoderDirectory:
        raise ConfigError("not installed")

    monkeypatch.setattr(chunk_lengths.EncoderDirectory, "open", missing)
    with logged(chunk_lengths.log) as lines:
        assert chunking_for(None, store).counter is WORDS
    assert any("chunks are counted in words" in line for line in lines)
