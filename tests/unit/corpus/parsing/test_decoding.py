"""Bytes to text: encodings that are met, and what is no text."""

import logging
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import InputError
from heddle.corpus.parsing.decoding import clean, decode

PATH = Path("some.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings(encoding):
    text = "Żółć is not in cp1252" if encoding != "cp1252" else "café “naïve” €"
    assert decode(text.encode(encoding), PATH) == text


def test_an_old_encoding_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        assert decode(b"caf\xe9", PATH) == "café"
    assert "some.txt: not UTF-8, read as cp1252" in caplog.text


def test_a_declared_encoding_comes_before_the_guess():
    assert decode("Жук".encode("koi8-r"), PATH, declared="koi8-r") == "Жук"
    assert decode(b"caf\xe9", PATH, declared="no-such-encoding") == "café"
    assert decode(b"caf\xe9", PATH, declared="zip") == "café"


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "no-such-encoding"])
@pytest.mark.parametrize("text", ["naïve “café”", "Кириллица", "日本語のテキスト"])
def test_a_damaged_place_leaves_the_rest_as_it_is(caplog, text, declared):
    content = text.encode() + b"\xff end"
    assert decode(content, PATH, declared) == f"{text}\ufffd end"
    assert "some.txt: read as utf-8, damaged characters: 1" in caplog.text
    cut_off = text.encode() + "é".encode()[:1]
    assert decode(cut_off, PATH, declared) == f"{text}\ufffd"


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("gb2312", "gbk", "朱镕基"),
        ("euc-kr", "cp949", "펲시"),
        ("Shift_JIS", "cp932", "①髙島屋"),
        ("x-sjis", "cp932", "日本語"),
        ("iso-8859-9", "cp1254", "“ığdır”"),
        ("windows-874", "cp874", "“ไทย”"),
        ("utf-16", "cp1252", "café"),
        ("utf-16", "utf-8", "日本"),
    ],
)
def test_declared_encodings_are_read_as_browsers_read_them(declared, encoding, text):
    assert decode(text.encode(encoding), PATH, declared) == text


def test_a_damaged_place_in_the_declared_encoding():
    content = "株式会社".encode("shift_jis") + b"\x81"
    assert decode(content, PATH, declared="shift_jis") == "株式会社\ufffd"
    assert decode("é ".encode("cp1252") * 9, PATH, declared="shift_jis") == "é " * 9


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01\x01\x00\x00",
        b"text\x00text",
        b"\xff\xfe\x00\xd8\x00\x00",
        random.Random(0).randbytes(4000).replace(b"\x00", b""),
        b"\x89PNG\r\n\x1a\n\x80\x81",
    ],
)
def test_binary_junk(content):
    with pytest.raises(InputError, match=r"some\.txt: looks like binary data .*UTF-8"):
        decode(content, PATH)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_what_a_terminal_shows_as_bold_or_coloured_is_plain_text(encoding):
    colours = "\x1b[1mBOLD\x1b[22m, \x1b[4munder\x1b[0m, \x1b[38;5;208mé\x1b[m, \x1b[K"
    assert decode(colours.encode(encoding), PATH) == "BOLD, under, é, "
    struck_over = "N\bNA\bAM\bMÉ\bÉ\b\u00c9 _\bx y"
    assert decode(struck_over.encode(encoding), PATH) == "NAMÉ x y"


def test_cleaning():
    assert clean("a\r\nb\rc\x0cd\u2028e") == "a\nb\nc\nd\ne"
    assert clean("a\x00b\x1bc") == "a b c"
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("tab\tstays") == "tab\tstays"


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_can_be_stored(text):
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned
