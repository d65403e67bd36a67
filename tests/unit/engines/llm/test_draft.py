"""Where in its draft a text is, and how much of it is worth being checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.llm.draft import DRAFT_TOKENS_MAX, NOTHING_DRAFTED, Draft, DraftPrice

FREE = DraftPrice(0.0, 0.0)
KNOWN = (5, 6, 7, 8, 9, 5, 6, 3)


def draft_after(written, known=KNOWN):
    draft = Draft(known)
    for token in written:
        draft.write(token)
    return draft


@pytest.mark.parametrize(
    ("written", "following"),
    [
        ((), KNOWN),
        ((5,), KNOWN[1:]),
        ((5, 6, 7), (8, 9, 5, 6, 3)),
        ((1,), ()),  # something else
        ((1, 5), ()),  # one token may stand anywhere
        ((1, 5, 6), KNOWN[2:]),
        ((5, 6, 7, 1, 5, 6), (3,)),  # the first place from here on
        ((5, 6, 7, 8, 9, 5, 6, 4, 5, 6), KNOWN[2:]),  # none is left there, so the first of all
        (KNOWN, ()),
    ],
)
def test_it_offers_what_follows_the_newest_tokens(written, following):
    assert draft_after(written).offer(99, FREE) == following


@given(st.integers(-1, 20))
def test_no_more_than_wanted_is_offered(wanted):
    known = tuple(range(100, 130))
    assert Draft(known).offer(wanted, FREE) == known[: max(0, min(wanted, DRAFT_TOKENS_MAX))]


@pytest.mark.parametrize("price", [DraftPrice(0.0, 1.0), DraftPrice(9.0, 0.1), NOTHING_DRAFTED])
def test_nothing_is_offered_that_costs_more_than_it_saves(price):
    assert Draft(KNOWN).offer(9, price) == ()


def test_a_row_has_to_pay_with_all_of_its_tokens():
    """0.8 + 0.64 + 0.512 steps are expected of three tokens."""
    known = KNOWN[:3]
    assert Draft(known).offer(9, DraftPrice(1.9, 0.0)) == known
    assert Draft(known).offer(9, DraftPrice(2.0, 0.0)) == ()
    assert Draft(known).offer(9, DraftPrice(1.5, 0.2)) == ()
    assert Draft(known[:1]).offer(9, DraftPrice(1.0, 0.0)) == ()


def test_the_dearer_a_token_the_fewer_are_offered():
    known = tuple(range(100, 130))
    offered = [
        len(Draft(known).offer(99, DraftPrice(0.0, price))) for price in (0.01, 0.1, 0.3, 0.5, 0.9)
    ]
    assert offered == [15, 10, 5, 3, 0]  # 0.8 to that power is above the price


def test_a_draft_that_is_wrong_is_offered_in_smaller_pieces():
    known = tuple(range(100, 130))
    draft, offered = Draft(known), []
    for _ in range(5):
        offered.append(len(draft.offer(99, DraftPrice(0.0, 0.2))))
        draft.judge(is_right=False)
    assert offered == [7, 3, 2, 2, 1]
    assert draft.accepted == 0


def test_a_draft_that_is_right_is_offered_in_larger_pieces():
    known = tuple(range(100, 130))
    draft = Draft(known)
    before = len(draft.offer(99, DraftPrice(0.0, 0.3)))
    for _ in range(10):
        draft.judge(is_right=True)
    assert len(draft.offer(99, DraftPrice(0.0, 0.3))) > before
    assert draft.accepted == 10
