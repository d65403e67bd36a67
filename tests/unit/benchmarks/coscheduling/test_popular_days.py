from collections import Counter

import pytest

from benchmarks.coscheduling.popular_days import Request, popular_days, requests_of

DAY = 86_400


def row(at_s: float, first: int, question: int) -> dict[str, object]:
    return {"t": at_s, "passages": [[first, 100], [9, 100]], "user": [[question, 5]]}


def test_requests_are_about_their_first_passage() -> None:
    without = {"t": 5.0, "passages": [], "user": [[1, 5]]}
    found = requests_of([row(1.0, 7, 70), without, row(DAY + 1.0, 7, 71)])
    assert found == [Request(0, 7, 70), Request(1, 7, 71)]


def test_two_days_have_what_the_trace_has_in_common() -> None:
    requests = [
        *(Request(0, 1, number) for number in range(6)),  # popular
        Request(0, 2, 20),
        *(Request(1, 1, number) for number in (0, 10, 11)),  # one of them is asked again
        Request(1, 3, 30),
        Request(2, 4, 40),  # another day
    ]
    questions = {f"p{n}": [f"p{n} q{m}" for m in range(3)] for n in range(5)}
    questions |= {f"single{n}": [f"single{n} q"] for n in range(4)}
    days = popular_days(requests, questions, seed=0)
    assert len(days.before) == 7
    assert len(days.asked) == 4
    assert days.questions_seen == days.questions_seen_there == pytest.approx(1 / 4)
    assert days.passages_seen <= days.passages_seen_there == pytest.approx(3 / 4)
    # Each question of the trace has one of ours, so a popular thing has many passages.
    assert (
        len(set(days.before) | set(days.asked))
        == len({(r.thing, r.question) for r in requests}) - 1
    )
    about = Counter(question.split()[0] for question in days.before)
    assert max(about.values()) == 3
    assert sum(question.startswith("single") for question in (*days.before, *days.asked)) == 2


def test_the_same_seed_gives_the_same_days() -> None:
    requests = [Request(day, thing, thing) for day in (0, 1) for thing in range(20)]
    questions = {f"p{n}": [f"p{n} q"] for n in range(30)}
    assert popular_days(requests, questions, 1) == popular_days(requests, questions, 1)
    assert popular_days(requests, questions, 1) != popular_days(requests, questions, 2)


def test_too_few_questions_are_asked_again() -> None:
    requests = [Request(0, thing, thing) for thing in range(5)] + [Request(1, 9, 9)]
    days = popular_days(requests, {"p": ["one?"], "q": ["two?"]}, seed=0)
    assert set(days.before) == {"one?", "two?"}
    assert days.questions_seen == 1.0
