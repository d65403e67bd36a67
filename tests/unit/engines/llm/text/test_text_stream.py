"""The pieces of a stream join to the decoded text, for every tokenizer and every cut."""

import functools
import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

from heddle.core.errors import ConfigError, InputError
from heddle.engines.llm.text.text_stream import REPLACEMENT, WINDOW_TOKENS_MAX, TextDecoder

CORPUS = [
    "The harbour of Aldermouth was rebuilt in 1911, and its light still turns.",
    "  two spaces\n\nnew lines\tand tabs ; it's fine",
    "Zürich, naïve café, 東京の天気は晴れです。中文字符测试",
    "🙂🎉👩‍👩‍👧 emoji and more 🙂🙂",
]


def train(kind: str) -> Tokenizer:
    if kind in ("byte_level", "hidden_line_space"):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        if kind == "hidden_line_space":  # a line starts with a space that decoding removes
            tokenizer.normalizer = normalizers.Sequence(
                [normalizers.Prepend(" "), normalizers.Replace("\n", "\n ")]
            )
            tokenizer.decoder = decoders.Sequence(
                [decoders.ByteLevel(), decoders.Replace(Regex(r"(?:\A|(?<=\n)) "), "")]
            )
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = BpeTrainer(
            vocab_size=420, initial_alphabet=alphabet, show_progress=False, special_tokens=["<eos>"]
        )
    elif kind == "metaspace":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
        byte_tokens = [f"<0x{i:02X}>" for i in range(256)]
        trainer = BpeTrainer(
            vocab_size=400,
            limit_alphabet=40,
            show_progress=False,
            special_tokens=["<unk>", "<eos>", *byte_tokens],
        )
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = WordPieceTrainer(
            vocab_size=300, show_progress=False, special_tokens=["<unk>", "<eos>"]
        )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if kind == "metaspace":  # byte tokens are plain vocabulary in real models
        spec = tokenizer.to_str()
        tokenizer = Tokenizer.from_str(without_byte_specials(spec))
    return tokenizer


def without_byte_specials(spec: str) -> str:
    loaded = json.loads(spec)
    loaded["added_tokens"] = [t for t in loaded["added_tokens"] if "<0x" not in t["content"]]
    return json.dumps(loaded)


@functools.cache
def decoder_of(kind: str) -> tuple[Tokenizer, TextDecoder]:
    tokenizer = train(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        tokenizer.save(str(path))
        return tokenizer, TextDecoder(path)


def chunks_of(ids: list[int], seed: int) -> list[list[int]]:
    rng, chunks, at = random.Random(seed), [], 0
    while at < len(ids):
        size = rng.choice([1, 1, 1, 2, 3, 7])
        chunks.append(ids[at : at + size])
        at += size
    return chunks


def run(kind: str, ids: list[int], stop: tuple[str, ...] = (), seed: int = 0) -> tuple[str, bool]:
    stream = decoder_of(kind)[1].stream(stop)
    text, met = "", False
    for chunk in chunks_of(ids, seed):
        piece, met = stream.push(chunk)
        text += piece
    return text + stream.finish(), met


def stopped(text: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    """The reference: read character by character."""
    for end in range(1, len(text) + 1):
        met = [s for s in stop if text[:end].endswith(s)]
        if met:
            return text[: end - max(map(len, met))], True
    return text, False


pieces = st.sampled_from(
    [
        " ",
        "  ",
        "\n",
        "a",
        "The",
        " harbour",
        "é",
        "ü",
        "東京",
        "測",
        "🙂",
        "👩‍👩‍👧",
        "it's",
        ".",
        ",",
    ]
)
texts = st.lists(pieces, max_size=40).map("".join)
KINDS = ["byte_level", "hidden_line_space", "metaspace", "word_piece"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, derandomize=True)
@given(text=texts, seed=st.integers(0, 1000))
def test_pieces_join_to_the_decoded_text(kind: str, text: str, seed: int) -> None:
    tokenizer, decoder = decoder_of(kind)
    ids = tokenizer.encode(text).ids
    assert run(kind, ids, seed=seed) == (decoder.decode(ids), False)
    if kind == "byte_level":
        assert decoder.decode(ids) == text


@settings(max_examples=150, derandomize=True)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_any_byte_level_ids_decode_as_a_whole_would(data: st.DataObject, seed: int) -> None:
    tokenizer, decoder = decoder_of("byte_level")
    size = tokenizer.get_vocab_size()
    ids = data.draw(st.lists(st.integers(0, size - 1), max_size=120))
    text, _ = run("byte_level", ids, seed=seed)
    # What is left unfinished at the end is dropped.
    assert text.rstrip(REPLACEMENT) == decoder.decode(ids).rstrip(REPLACEMENT)


def test_long_invalid_bytes_keep_the_window_bounded() -> None:
    tokenizer, decoder = decoder_of("byte_level")
    lead = tokenizer.token_to_id(
        pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("é")[0][0][0]
    )
    ids = [lead] * 300 + tokenizer.encode("end").ids
    stream = decoder.stream()
    text = ""
    for number, token_id in enumerate(ids, start=1):
        text += stream.push([token_id])[0]
        assert len(text) >= number - WINDOW_TOKENS_MAX, "more is held back than the window holds"
    assert text == decoder.decode(ids)


def test_characters_that_straddle_every_token_border(tmp_path: Path) -> None:
    # "é" is the bytes C3 A9, shown as "Ã" and "©" by the byte-level alphabet.
    model = models.BPE({"Ã": 0, "©": 1, "©Ã": 2}, [("©", "Ã")])
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    stream = TextDecoder(tmp_path / "tokenizer.json").stream()
    ids = [0] + [2] * 100 + [1]
    pieces = [stream.push([i])[0] for i in ids]
    assert "".join(pieces) == "é" * 101
    assert pieces[1:] == ["é"] * 101


@pytest.mark.parametrize("kind", ["byte_level", "metaspace"])
def test_no_piece_shows_half_a_character(kind: str) -> None:
    tokenizer, decoder = decoder_of(kind)
    text = "測試 🦊 的 ok"  # characters the training text lacks: several byte tokens each
    ids = tokenizer.encode(text).ids
    assert len(ids) > len(text)
    for cut in range(len(ids)):
        stream = decoder.stream()
        shown = "".join(stream.push([i])[0] for i in ids[:cut]) + stream.finish()
        assert text.startswith(shown)


def test_metaspace_keeps_inner_spaces_and_drops_the_first() -> None:
    tokenizer, decoder = decoder_of("metaspace")
    ids = tokenizer.encode("The harbour  was").ids
    stream = decoder.stream()
    assert "".join(stream.push([i])[0] for i in ids) == "The harbour  was"


def test_special_tokens_are_not_shown() -> None:
    tokenizer, decoder = decoder_of("byte_level")
    ids = tokenizer.encode("The light").ids
    eos = tokenizer.token_to_id("<eos>")
    assert decoder.stream().push([eos, *ids, eos]) == ("The light", False)


def test_added_token_that_is_not_special_is_shown(tmp_path: Path) -> None:
    tokenizer = train("byte_level")
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    decoder = TextDecoder(tmp_path / "tokenizer.json")
    ids = tokenizer.encode("a<think>b").ids
    assert "".join(decoder.stream().push(ids)[0]) == "a<think>b"


@pytest.mark.parametrize("kind", ["byte_level", "metaspace"])
@settings(max_examples=120, derandomize=True)
@given(
    text=st.text("ab🙂é ", max_size=30),
    stop=st.lists(st.text("ab🙂é ", min_size=1, max_size=4), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
)
def test_stop_strings_across_tokens(kind: str, text: str, stop: list[str], seed: int) -> None:
    tokenizer, decoder = decoder_of(kind)
    ids = tokenizer.encode(text).ids
    assert run(kind, ids, tuple(stop), seed) == stopped(decoder.decode(ids), tuple(stop))


def test_text_is_held_while_it_may_become_a_stop_string() -> None:
    tokenizer, decoder = decoder_of("byte_level")
    stream = decoder.stream(("\n\nQuestion",))
    shown = [stream.push([i]) for i in tokenizer.encode("Lisbon\n\nQuest").ids]
    assert "".join(piece for piece, _ in shown) == "Lisbon"
    assert stream.finish() == "\n\nQuest"
    assert stream.finish() == ""


def test_after_a_stop_string_nothing_comes() -> None:
    tokenizer, decoder = decoder_of("byte_level")
    stream = decoder.stream(("was",))
    ids = tokenizer.encode("The harbour was rebuilt").ids
    assert stream.push(ids) == ("The harbour ", True)
    assert stream.push(ids) == ("", True)
    assert stream.finish() == ""


def test_empty_stop_string_is_refused() -> None:
    with pytest.raises(InputError, match="stop"):
        decoder_of("byte_level")[1].stream(("ok", ""))


def test_missing_or_broken_tokenizer_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="save_pretrained"):
        TextDecoder(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="can't be read"):
        TextDecoder(tmp_path / "tokenizer.json")
