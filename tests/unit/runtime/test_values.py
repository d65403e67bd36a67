"""Values as prompts and queries show them."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.core.passages import Passage
from heddle.graph.primitive import Read
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.values import (
    as_passages,
    as_text,
    is_empty,
    prompt_parts,
    query_texts,
    resolve,
    unique_passages,
)

PASSAGES = tuple(Passage(i, "d", f"t{i}", f"x{i}") for i in range(3))


def store_of(**values):
    store = ObjectStore()
    for key, value in values.items():
        store.put(key, value)
    return store


class TestResolve:
    def test_one_item_of_a_list(self):
        store = store_of(k=("a", "b"))
        assert resolve(Read("k"), store, "n") == ("a", "b")
        assert resolve(Read("k", 1), store, "n") == "b"

    def test_an_item_of_what_is_no_list_is_all_of_it(self):
        assert resolve(Read("k", 3), store_of(k="text"), "n") == "text"

    def test_past_the_end_the_node_and_slot_are_named(self):
        store = ObjectStore()
        store.put("part@0", ("a",))
        with pytest.raises(WorkflowError, match="node 'n': slot 'part' has 1 item"):
            resolve(Read("part@0", 1), store, "n")


class TestPrompt:
    def test_passages_are_parts_of_their_own(self):
        parts = ("Notes: ", Read("docs"), " Question: ", Read("query"))
        found = prompt_parts(parts, store_of(docs=PASSAGES, query="why"), "n")
        assert found == ["Notes: ", *PASSAGES, " Question: ", "why"]

    def test_an_empty_retrieval_is_an_empty_text(self):
        assert prompt_parts((Read("docs"),), store_of(docs=()), "n") == [""]

    def test_a_list_of_texts_and_passages_is_shown_item_by_item(self):
        notes = ("Note: a", PASSAGES[0], "b", PASSAGES[1])
        found = prompt_parts((Read("k"),), store_of(k=notes), "n")
        assert found == ["Note: a\n", PASSAGES[0], "b\n", PASSAGES[1]]
        assert as_text(notes) == "".join(map(as_text, found))

    def test_a_list_is_shown_line_by_line(self):
        assert prompt_parts((Read("k"),), store_of(k=("a", "b")), "n") == ["a\nb"]


class TestQuery:
    @pytest.mark.parametrize("value", [("a", "b"), ["a", "b"]])
    def test_a_list_slot_alone_is_several_queries(self, value):
        assert query_texts((Read("k"),), store_of(k=value), "n") == ("a", "b")

    def test_one_item_is_one_query(self):
        assert query_texts((Read("k", 0),), store_of(k=("a", "b")), "n") == ("a",)

    def test_within_a_template_each_item_gives_a_query(self):
        assert query_texts(("x ", Read("k")), store_of(k=("a", "b")), "n") == ("x a", "x b")

    def test_an_item_in_a_loop_is_one_query(self):
        assert query_texts(("x ", Read("k", 1)), store_of(k=("a", "b")), "n") == ("x b",)

    def test_a_second_list_is_shown_as_text(self):
        parts = (Read("k"), " of ", Read("m"))
        found = query_texts(parts, store_of(k=("a", "b"), m=("c", "d")), "n")
        assert found == ("a of c\nd", "b of c\nd")

    def test_an_empty_list_leaves_the_rest(self):
        assert query_texts(("x ", Read("k")), store_of(k=()), "n") == ("x",)

    def test_passages_are_one_text(self):
        (text,) = query_texts((Read("k"),), store_of(k=PASSAGES[:2]), "n")
        assert text == "## t0\nx0\n\n## t1\nx1"


def test_as_text_renders_passages_as_prompts_do():
    assert as_text(PASSAGES) == "".join(p.render() for p in PASSAGES)
    assert as_text(3) == "3"


def test_none_is_no_text_and_empty():
    assert as_text(None) == ""
    assert as_text(("a", None)) == "a\n"
    assert is_empty(Read("k"), store_of(k=None), "n")


def test_as_passages_leaves_other_values_out():
    assert as_passages("text") == ()
    assert as_passages(("text", PASSAGES[0])) == (PASSAGES[0],)


def test_unique_passages_keep_the_first_of_each():
    again = Passage(1, "d", "t1", "x1", distance=0.5)
    assert unique_passages([PASSAGES[:2], [again, PASSAGES[2]]]) == PASSAGES
