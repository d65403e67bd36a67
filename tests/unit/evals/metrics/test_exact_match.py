import pytest

from heddle.evals.metrics.exact_match import exact_match, exact_match_of_all


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("Lisbon", ("Lisbon",), 1),
        ("the  LISBON.", ("Lisbon",), 1),
        ("Old Mill", ("The Old Mill", "Mill"), 1),
        ("Lisbon, Portugal", ("Lisbon",), 0),
        ("", ("Lisbon",), 0),
        ("Lisbon", (), 0),
        ("anthem", ("them",), 0),  # articles are words, not letters
        ("U.S.A.", ("USA",), 1),
        ("1,581", ("1581",), 1),
    ],
)
def test_exact_match(answer, accepted, expected):
    assert exact_match(answer, accepted) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("2018 and 2019", 1),
        ("2019, 2018", 1),
        ("2018", 0),
        ("2017, 2018 and 2019", 0),
        ("2018, 2018, 2019", 0),
        ("", 0),
    ],
)
def test_all_answers_are_wanted_in_any_order(answer, expected):
    assert exact_match_of_all(answer, ("2018", "2019")) == expected
