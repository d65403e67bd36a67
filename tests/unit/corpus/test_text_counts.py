"""How long texts are, and chunks that an embedder reads whole."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.text_counts import WORDS, TokenCounter
from heddle.encoder.encoder_directory import EncoderDirectory

MODEL = EncoderDirectory.open(None)
FILE = MODEL.path / "tokenizer.json"
TOKENS = TokenCounter(FILE, "minilm", prompt="passage: ", lower_case=True)


def test_words():
    assert WORDS.starts("one  two\n漢字").tolist() == [0, 5, 9, 10]
    assert WORDS.embedded("a title", ["one two", ""]) == [2, 0]


def test_tokens_begin_where_they_stand():
    text = "Unaffable İstanbul: café\n\nends"
    starts = TokenCounter(FILE, "minilm", lower_case=True).starts(text)
    assert starts[0] == 0
    assert text.index("café") in starts
    assert text.index("ends") in starts


def test_a_long_text_is_counted_in_blocks_as_at_once():
    text = "some words, more words; " * 2000
    starts = TOKENS.starts(text)
    assert len(starts) == 6 * 2000
    assert starts.tolist() == sorted(starts)


def test_title_prompt_and_special_tokens_count():
    # [CLS] passage : a title one two [SEP]
    assert TOKENS.embedded("a title", ["one two"]) == [8]


def test_a_file_that_is_no_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(ConfigError, match=r"tokenizer\.json can't be read"):
        TokenCounter(tmp_path / "tokenizer.json", "x")


@settings(max_examples=100, deadline=None)
@given(
    text=st.text(st.sampled_from("ab Ié漢字.\n\n#x1/_😀İ-"), max_size=800),
    title=st.text(max_size=300),
    size=st.integers(16, 64),
    overlap=st.integers(0, 8),
)
def test_no_chunk_is_longer_than_was_asked(text, title, size, overlap):
    document = Document("id", title, text, "", has_headings=True)
    found = chunk_document(document, Chunking(size, overlap, TOKENS))
    for chunk in found:
        assert TOKENS.embedded(chunk.title, [chunk.text])[0] <= size
        assert text[chunk.start : chunk.end] == chunk.text
    if text.strip():
        assert found
