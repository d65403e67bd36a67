"""Chunks: nothing lost, bounds kept, cut where a reader would cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.corpus.chunking import Chunking, TextChunk, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.text_counts import WORD_CHARS_MAX


def cut(text: str, **options: int) -> list[str]:
    found = chunk_document(Document("id", "Title", text, ""), Chunking(**options))
    return [chunk.text for chunk in found]


def letters(text: str) -> str:
    return "".join(text.split())


def sentence(word: str, words: int) -> str:
    return " ".join([word.capitalize()] + [word] * (words - 1)) + "."


WORDS = st.one_of(
    st.text("abcdefgXYZ", min_size=1, max_size=12),
    st.sampled_from(["Dr.", "e.g.", "end.", "Really?", "“Yes!”", "...", "-", "*", "1.", "#", "##"]),
    st.text("漢字かな。", min_size=1, max_size=30),
    st.integers(1, 3 * WORD_CHARS_MAX).map(lambda length: "x" * length),
)
SPACES = st.sampled_from([" ", " ", " ", "  ", "\n", "\n\n", "\n \n", "\t", "\n\n\n\n"])
TEXTS = st.lists(st.tuples(WORDS, SPACES), max_size=80).map(
    lambda parts: "".join(word + space for word, space in parts)
)
# At size 1 the rest of a word that a sentence's end has cut may stand beside another word.
CHUNKINGS = st.integers(2, 40).flatmap(
    lambda words: st.builds(
        Chunking,
        size=st.just(words),
        overlap=st.integers(0, words // 2),
    )
)


@settings(max_examples=40)
@given(text=st.one_of(TEXTS, st.text(max_size=300)), chunking=CHUNKINGS)
def test_bounds_hold_and_equal_texts_give_equal_chunks(text, chunking):
    document = Document("id", "Title", text, "")
    found = chunk_document(document, chunking)
    assert found == chunk_document(document, chunking)
    assert [chunk.position for chunk in found] == list(range(len(found)))
    assert [text[chunk.start : chunk.end] for chunk in found] == [chunk.text for chunk in found]
    for chunk in found:
        assert chunk.text == chunk.text.strip() != ""
        assert len(chunk.text) <= chunking.chars_max
        assert len(chunk.text.split()) <= chunking.size
        assert chunk.title == "Title"


@settings(max_examples=100)
@given(text=st.one_of(TEXTS, st.text(max_size=300)), size=st.integers(1, 40))
def test_nothing_is_lost(text, size):
    assert letters("".join(cut(text, size=size))) == letters(text)


@settings(max_examples=100)
@given(text=TEXTS, size=st.integers(1, 40))
def test_words_are_not_cut(text, size):
    short = [word for word in text.split() if len(word) <= WORD_CHARS_MAX and word.isascii()]
    pieces = {word for chunk in cut(text, size=size) for word in chunk.split()}
    assert set(short) <= pieces


@settings(max_examples=60)
@given(spaces=st.lists(SPACES, max_size=80), size=st.integers(2, 40))
def test_an_overlap_repeats_the_end_of_the_chunk_before(spaces, size):
    overlap = size // 2
    text = "".join(f"{number}{space}" for number, space in enumerate(spaces))
    end = 0
    for chunk in cut(text, size=size, overlap=overlap):
        numbers = [int(word) for word in chunk.split()]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert max(0, end - overlap) <= numbers[0] <= end < numbers[-1] + 1
        end = numbers[-1] + 1
    assert end == len(spaces)


def test_the_words_that_overlap():
    text = " ".join(f"w{number}" for number in range(12))
    assert cut(text, size=6, overlap=2) == [
        "w0 w1 w2 w3",
        "w2 w3 w4 w5 w6 w7",
        "w6 w7 w8 w9 w10 w11",
    ]


def test_a_short_document_is_one_chunk():
    assert cut("One. Two.\n\nThree.") == ["One. Two.\n\nThree."]


def test_no_text_gives_no_chunks():
    assert cut("") == cut(" \n\t\n ") == []


def test_paragraphs_stay_together_while_they_fit():
    one, two, three = (sentence(word, 40) for word in ("one", "two", "three"))
    assert cut(f"{one}\n\n{two}\n\n{three}", size=100) == [f"{one}\n\n{two}", three]


def test_a_long_paragraph_is_cut_at_sentences_into_even_parts():
    sentences = [sentence(f"w{number}", 20) for number in range(7)]
    found = cut(" ".join(sentences), size=120)
    assert found == [" ".join(sentences[:3]), " ".join(sentences[3:])] or found == [
        " ".join(sentences[:4]),
        " ".join(sentences[4:]),
    ]


def test_a_short_line_goes_with_the_long_paragraph_under_it():
    sentences = [sentence(f"w{number}", 20) for number in range(8)]
    found = cut("A heading\n\n" + " ".join(sentences), size=120)
    assert found[0].startswith("A heading\n\nW0 ")
    assert len(found) == 2


@pytest.mark.parametrize(
    "stop", ["Dr. Grey", "St. Mary", "J. Smith", "e.g. Paris", "the U.S. Army"]
)
def test_an_abbreviation_ends_no_sentence(stop):
    second = f"Four five {stop} seven eight nine ten eleven."
    # Were the abbreviation an end, the two parts would be more even when cut there.
    found = cut(f"One two three. {second}", size=len(second.split()))
    assert found == ["One two three.", second]


def test_lines_are_cut_before_words_are():
    rows = [f"cell {row} | cell {row} | cell {row}" for row in range(6)]
    found = cut("\n".join(rows), size=20)
    assert all(line in rows for chunk in found for line in chunk.split("\n"))


def test_ideographs_count_as_words():
    found = cut("東京は日本の首都です。" * 30, size=50)
    assert all(len(chunk) <= 50 for chunk in found)
    assert all(chunk.endswith("。") for chunk in found)


def test_a_chunk_keeps_the_blank_lines_in_it():
    assert cut(" one\n \n\n\t\n\ntwo\n") == ["one\n \n\n\t\n\ntwo"]


def test_a_huge_text_without_a_space():
    found = cut("x" * 1_000_000)
    assert sum(map(len, found)) == 1_000_000
    assert max(map(len, found)) <= 2000


def test_headings_begin_chunks_and_go_to_the_title():
    text = "Intro.\n\n# One\n\nBody one.\n\n## Deep\nBody deep.\n\n# Two\nBody two.\n"
    document = Document("id", "Doc", text, "", has_headings=True)
    assert chunk_document(document, Chunking(size=7)) == (
        TextChunk(0, "Doc", "Intro.", 0, 6),
        TextChunk(1, "Doc > One", "Body one.", 15, 24, None, ("One",)),
        TextChunk(2, "Doc > One > Deep", "Body deep.", 34, 44, None, ("One", "Deep")),
        TextChunk(3, "Doc > Two", "Body two.", 52, 61, None, ("Two",)),
    )


def joined(text: str, size: int = 40) -> list[tuple[str, str]]:
    document = Document("id", "Doc", text, "", has_headings=True)
    return [(chunk.title, chunk.text) for chunk in chunk_document(document, Chunking(size))]


LONG = "six words are said right here"


def test_a_section_that_says_little_goes_with_the_next():
    assert joined(f"# A\nlittle\n# B\nlittle\n# C\n{LONG}\n# D\n{LONG}") == [
        ("Doc", "# A\nlittle\n# B\nlittle"),
        ("Doc > C", LONG),
        ("Doc > D", LONG),
    ]
    assert joined(f"# A\nlittle\n## B\n{LONG}") == [("Doc > A", f"little\n## B\n{LONG}")]


def test_a_last_section_that_says_little_goes_with_the_one_before():
    assert joined(f"# A\n## B\n{LONG}\n## C\nlittle") == [
        ("Doc > A", f"## B\n{LONG}\n## C\nlittle")
    ]


def test_no_heading_is_lost_by_joining():
    deep = f"# A\n## B\n### C\nlittle\n# D\n{LONG}"
    assert joined(deep) == [("Doc > A > B > C", "little"), ("Doc > D", LONG)]
    full = "# A\nlittle\n# B\n" + f"{LONG} " * 8
    assert joined(full)[0] == ("Doc > A", "little")


def test_a_chunk_says_on_which_page_it_begins():
    text = "one one\n\ntwo two\n\nfour four"
    pages = (0, 9, 18, 18)  # the third is empty
    document = Document("id", "Doc", text, "", pages=pages)
    found = chunk_document(document, Chunking(size=2))
    assert [chunk.page for chunk in found] == [1, 2, 4]


def test_without_headings_a_hash_is_text():
    assert cut("# not a heading\n\ntext") == ["# not a heading\n\ntext"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"size": 0}, "size"),
        ({"overlap": -1}, "overlap"),
        ({"size": 10, "overlap": 6}, "overlap"),
    ],
)
def test_bad_parameters_name_their_field(options, field):
    with pytest.raises(ConfigError, match=field):
        Chunking(**options)
