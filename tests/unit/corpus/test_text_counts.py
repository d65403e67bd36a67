"""How long texts are, and chunks that an embedder reads whole."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Encoding, Tokenizer

from heddle.core.errors import ConfigError
from heddle.corpus import text_counts
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.text_counts import BLOCK_CHARS_MAX, BLOCKS, WORDS, TokenCounter
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


class SeenTokenizer:
    """A tokenizer that notes how many texts it gets at once, and how long they are."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.texts_max = self.chars_max = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._tokenizer, name)

    def note(self, texts: Sequence[str]) -> None:
        self.texts_max = max(self.texts_max, len(texts))
        self.chars_max = max(self.chars_max, *map(len, texts))

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool) -> list[Encoding]:
        self.note(texts)
        return self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)

    def encode_batch_fast(self, texts: Sequence[str]) -> list[Encoding]:
        self.note(texts)
        return self._tokenizer.encode_batch_fast(texts)


@pytest.mark.parametrize("space", ["", " "])
def test_of_a_long_text_little_is_tokenised_at_once(monkeypatch, space):
    seen = SeenTokenizer(Tokenizer.from_file(str(FILE)))
    monkeypatch.setattr(text_counts.Tokenizer, "from_file", lambda file: seen)
    text = f"QUJD/+{space}" * 9_000
    counter = TokenCounter(FILE, "minilm")
    found = chunk_document(Document("id", "title", text, ""), Chunking(64, 0, counter))
    assert "".join(chunk.text for chunk in found).replace(" ", "") == text.replace(" ", "")
    assert len(found) > BLOCKS
    assert seen.texts_max <= BLOCKS
    assert seen.chars_max <= BLOCK_CHARS_MAX


def test_title_prompt_and_special_tokens_count():
    # [CLS] passage : a title one two [SEP]
    assert TOKENS.embedded("a title", ["one two"]) == [8]


def test_a_file_that_is_no_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(ConfigError, match=r"tokenizer\.json can't be read"):
        TokenCounter(tmp_path / "tokenizer.json", "x")


@settings(max_examples=100)
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
