"""Generated text as a list, whole and while it is written."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.runtime.written_list import ITEMS_MAX, WrittenList, as_lines

BRACKETS = "[" * 200_000  # nested more deeply than any JSON parser goes


class TestAsLines:
    @pytest.mark.parametrize(
        ("text", "items"),
        [
            ('["who", "when"]', ("who", "when")),
            ('["who",\n "when"]', ("who", "when")),
            ("[1, 2]", ("1", "2")),
            ('"who"\n"when"', ("who", "when")),
            ('"who",\n"when",', ("who", "when")),
            ('"say \\"hi\\""', ('say "hi"',)),
            ("- who\n* when\n• where", ("who", "when", "where")),
            ("1. who\n2. when\n10. where", ("who", "when", "where")),
            ('1. "who"\n2. "when"', ("who", "when")),
            ("who\n\n  when  \n", ("who", "when")),
            ("in 3.5 years", ("in 3.5 years",)),
            ('[\n"who",\n"when"\n', ("who", "when")),
            ('"unclosed', ("unclosed",)),
            ('["who is \\ud83d", "\\ud83d\\ude00"]', ("who is ?", "😀")),
            ('1. "who is \\ud83d"', ("who is ?",)),
            ("[not json", ("[not json",)),
            ("", ()),
            ("  \n ", ()),
            ("[]", ()),
            ('["", " "]', ()),
        ],
    )
    def test_reads(self, text, items):
        assert as_lines(text) == items

    def test_brackets_without_end_are_a_plain_line(self):
        assert as_lines(BRACKETS) == (BRACKETS,)
        assert as_lines(f"{BRACKETS}\nwho") == (BRACKETS, "who")

    def test_a_runaway_list_is_cut(self):
        assert len(as_lines("\n".join(map(str, range(500))))) == ITEMS_MAX
        assert len(as_lines(json.dumps(list(map(str, range(500)))))) == ITEMS_MAX

    @given(st.text())
    def test_takes_any_text_and_gives_clean_items(self, text):
        items = as_lines(text)
        assert len(items) <= ITEMS_MAX
        assert all(item and item == item.strip() for item in items)

    @given(st.lists(st.text("abc -'", min_size=1).map(str.strip).filter(bool), max_size=9))
    def test_a_json_list_comes_back_whole(self, items):
        assert as_lines(json.dumps(items)) == tuple(items)


def written(pieces):
    """Return what is there after each piece."""
    growing = WrittenList()
    return [(growing.add(piece), tuple(growing.items)) for piece in pieces]


class TestWrittenList:
    def test_an_item_is_there_when_its_line_has_ended(self):
        assert written(["1. wh", "o\n2. when", "\n", "\n3. where"]) == [
            (False, ()),
            (True, ("who",)),
            (True, ("who", "when")),
            (False, ("who", "when")),
        ]

    def test_an_item_of_json_is_there_when_its_value_has_ended(self):
        assert written([' ["who', '", 1', "2", ", null", "]"]) == [
            (False, ()),
            (True, ("who",)),
            (False, ("who",)),
            (True, ("who", "12")),
            (True, ("who", "12", "None")),
        ]

    def test_a_line_break_of_two_characters_ends_one_line(self):
        assert written(["who\r", "\nwhen\r\n"])[-1] == (True, ("who", "when"))

    def test_brackets_without_end_give_no_item(self):
        assert written(['["who", ', BRACKETS, "\n"])[1:] == [(False, ("who",))] * 2

    def test_a_runaway_list_is_cut(self):
        assert len(written(["item\n"] * 500)[-1][1]) == ITEMS_MAX

    @given(
        st.lists(st.text("abc -'\"\n\\[],1").map(str.strip).filter(bool), max_size=9),
        st.sampled_from([json.dumps, lambda items: "\n".join(map(json.dumps, items)) + "\n"]),
        st.lists(st.integers(0, 99), max_size=9),
    )
    def test_any_cut_of_a_well_formed_list_gives_its_items(self, items, write, cuts):
        text = write(items)
        places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
        pieces = [text[a:b] for a, b in pairwise(places)]
        found = [items for _, items in written(pieces)]
        whole = as_lines(text)
        assert found[-1] == whole
        assert all(part == whole[: len(part)] for part in found)

    @given(st.lists(st.text(), max_size=9))
    def test_takes_any_text_and_gives_clean_items(self, pieces):
        items = written(pieces)[-1][1] if pieces else ()
        assert len(items) <= ITEMS_MAX
        assert all(item and item == item.strip() for item in items)
