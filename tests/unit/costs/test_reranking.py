"""Reading more passages so that a prompt needs fewer of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.costs.reranking import ModelWork, RankedSearch, reranking_pays

EXTRACTOR = ModelWork(10_600_000, 1)


def test_twice_as_many_are_read_and_three_of_five_kept():
    assert RankedSearch.instead_of(5) == RankedSearch(10, 3)
    assert RankedSearch.instead_of(1) == RankedSearch(2, 1)


@given(st.integers(1, 1000))
def test_some_passages_are_kept_and_never_more_than_found(topk: int):
    ranked = RankedSearch.instead_of(topk)
    assert 1 <= ranked.kept <= topk < ranked.found


@pytest.mark.parametrize(
    ("llm", "pays"),
    [
        (ModelWork(106_000_000, 1), True),  # SmolLM2-135M: twice the extractor's work
        (ModelWork(106_000_000, 3), False),  # the prompt has three cores, the extractor one
        (ModelWork(5_100_000, 1), False),  # the packaged small LLM
        (ModelWork(7_000_000_000, 12), True),
    ],
)
def test_it_pays_where_the_dropped_tokens_take_longer_than_the_read_ones(
    llm: ModelWork, pays: bool
):
    assert reranking_pays(EXTRACTOR, llm, 5) is pays


def test_dropping_nothing_never_pays():
    assert not reranking_pays(EXTRACTOR, ModelWork(7_000_000_000, 1), 1)
