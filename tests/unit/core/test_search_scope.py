import pytest

from heddle.core.errors import InputError
from heddle.core.search_scope import (
    CHARS_MAX,
    WHERE_PAIRS_MAX,
    SearchScope,
    both,
    metadata_of,
    where_of,
)


def test_metadata_is_text_sorted_and_each_pair_once():
    given = {"year": 2021, "tags": ["b", "a", "b"], "draft": False, "share": 0.5}
    assert metadata_of(given) == (
        ("draft", "false"),
        ("share", "0.5"),
        ("tags", "a"),
        ("tags", "b"),
        ("year", "2021"),
    )
    assert metadata_of({}) == ()


def test_a_filter_keeps_a_keys_values_together():
    assert where_of({"tags": ["b", "a"], "lang": "en"}) == (("lang", ("en",)), ("tags", ("a", "b")))
    assert (
        str(SearchScope("", where_of({"tags": ["b", "a"], "lang": "en"}))) == "lang=en, tags=a or b"
    )


def test_two_filters_ask_for_both():
    one, other = where_of({"lang": ["en", "de"], "year": 2021}), where_of({"lang": ["de", "fr"]})
    assert both(one, other) == both(other, one) == where_of({"lang": "de", "year": 2021})
    assert both(one, ()) == both((), one) == one
    contrary = both(where_of({"lang": "en"}), where_of({"lang": "de"}))
    assert contrary == (("lang", ()),)
    assert "lang=(a value that the workflow's filter and the request's" in str(
        SearchScope(where=contrary)
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("lang=en", "where must be a mapping"),
        ({1: "en"}, "a key must be a string"),
        ({"": "en"}, "not empty"),
        ({"lang": None}, "'lang' must have a text"),
        ({"lang": {"a": 1}}, "'lang' must have a text"),
        ({"lang": []}, "'lang' has no value"),
        ({"lang": "\ud800"}, "half a character"),
        ({"lang": "x" * (CHARS_MAX + 1)}, "longer than"),
        ({"lang": list(range(WHERE_PAIRS_MAX + 1))}, "at most"),
    ],
)
def test_what_is_no_filter_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        where_of(given)
