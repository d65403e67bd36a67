"""What the scores of quotes say about a run."""

from dataclasses import replace

import pytest

from heddle.core.quotations import quotations_of
from heddle.core.results import Quote
from heddle.evals.context import Case
from heddle.evals.declining import quoting_headline
from heddle.evals.quoting import given_quotes, hidden_answers, without_answers
from heddle.evals.run import Outcome
from heddle.evals.scores import score
from heddle.workflow.presets import QUOTE_TOPK
from tests.unit.evals.answering import LISBON, PORTO, answer, question

THRESHOLD = 1.0


def quoted(text, quote_score, found=(PORTO, LISBON), asked=None):
    """Return the outcome of a question answered with `text` from the passage about Lisbon."""
    start = LISBON.text.index(text)
    scored = [replace(p, score=quote_score if p is LISBON else -9.0) for p in found]
    quote = Quote(
        scored.index(next(p for p in scored if p.score == quote_score)),
        start,
        start + len(text),
        quote_score,
    )
    value = quotations_of([quote], scored, THRESHOLD)
    reply = answer(str(value), value.passages)
    reply = replace(reply, slots={"quotes": value, "docs": found}, quotes=value.found)
    return Outcome(Case(asked or question(gold=(("d1",),)), None), reply)


def test_the_best_quote_is_scored_even_where_it_is_declined():
    assert score(quoted("Lisbon", 2.0)).values["exact_match"] == 1.0
    assert score(quoted("Lisbon", 0.5)).values["exact_match"] == 1.0
    assert score(quoted("Tagus", 2.0)).values["exact_match"] == 0.0


def test_the_order_of_passages_before_and_after_reading():
    found = quoting_headline([score(quoted("Lisbon", 2.0))], [])
    assert found == {
        "f1_best_quarter": 1.0,
        "gold_first": 1.0,
        "gold_first_unranked": 0.0,
        "gold_gain": 1.0,
    }


def test_a_question_whose_passage_was_not_found_says_nothing_of_the_order():
    asked = question(gold=(("elsewhere",),))
    assert quoting_headline([score(quoted("Lisbon", 2.0, asked=asked))], []) == {
        "f1_best_quarter": 1.0
    }


def test_passages_that_were_given_have_no_order():
    asked = question(gold=(("d1",),))
    given = replace(quoted("Lisbon", 2.0), case=Case(asked, (PORTO, LISBON)))
    assert quoting_headline([score(given)], []) == {"f1_best_quarter": 1.0}


def test_right_answers_against_hidden_ones():
    shown = [score(quoted("Lisbon", value)) for value in (0.5, 3.0, 4.0)]
    shown.append(score(quoted("Tagus", 9.0)))  # wrong: no positive
    hidden = [quoted("Tagus", value) for value in (0.0, 2.0)]
    found = quoting_headline(shown, hidden)
    assert found["auroc"] == pytest.approx(5 / 6)
    assert found["declined_at_95"] == 0.5
    assert found["declined_shipped"] == 0.5
    assert found["kept_shipped"] == pytest.approx(2 / 3)


def test_passages_with_an_accepted_answer_are_hidden():
    assert without_answers((LISBON, PORTO), ("lisbon",)) == (PORTO,)
    assert without_answers((PORTO,) * 30, ("Lisbon",)) == (PORTO,) * QUOTE_TOPK


def test_the_workflows_compile():
    assert "quotes" in given_quotes().compile().writers
    assert hidden_answers().compile().inputs == {"query", "answers"}
