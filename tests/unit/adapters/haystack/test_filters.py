import pytest

pytest.importorskip("haystack", reason="the client haystack-ai is not installed: make setup-all")

from heddle.adapters.haystack.filters import where_of_filters
from heddle.core.errors import InputError


def equals(field: str, value: object, operator: str = "==") -> dict[str, object]:
    return {"field": field, "operator": operator, "value": value}


def test_comparisons_become_what_documents_must_have():
    assert where_of_filters(None) is None
    assert where_of_filters(equals("meta.lang", "en")) == {"lang": "en"}
    inner = {"operator": "AND", "conditions": [equals("year", [2020, 2021], "in")]}
    both = {"operator": "AND", "conditions": [equals("meta.lang", "en"), inner]}
    assert where_of_filters(both) == {"lang": "en", "year": [2020, 2021]}


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (equals("meta.year", 2020, ">"), "operator '>' can't be searched for"),
        ({"operator": "OR", "conditions": [equals("a", 1)]}, "joined by AND; 'OR'"),
        ({"operator": "AND", "conditions": [equals("a", 1), equals("meta.a", 2)]}, "'a' is comp"),
        ({"operator": "AND", "conditions": []}, "AND needs a list"),
        (equals("a", "text", "in"), "needs a list of values"),
        ({"lang": "en"}, "a condition has field, operator and value"),
    ],
)
def test_what_no_search_can_do_is_refused_by_its_operator(filters, words):
    with pytest.raises(InputError, match="filters: ") as caught:
        where_of_filters(filters)
    assert words in str(caught.value)
    assert caught.value.param == "filters"
