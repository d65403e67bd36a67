"""A judge behind a server of the test: verdicts, and every way to come to none."""

import asyncio
import json

import pytest

from heddle.app.models.remote_models import open_remote_judge
from heddle.core.errors import ConfigError, InputError
from heddle.evals.context import Case
from heddle.evals.judging.exhibit import Exhibit
from heddle.evals.judging.judge import FAILURES_MAX, Judge, judge_answers
from heddle.evals.judging.judgement import JudgedCounts, Judgement, Unjudged
from heddle.evals.run import Outcome
from heddle.runtime.clock import SystemClock
from tests.helpers.fake_endpoint import FakeEndpoint, Step, answer, plain, stream_head
from tests.unit.evals.answering import LISBON, question
from tests.unit.evals.answering import answer as answered
from tests.unit.evals.test_declining import quoted

EXHIBIT = Exhibit("Which {city}?", "Lisbon, in Peru.", ("The capital is Lisbon.",))
STATEMENTS = ("Lisbon is the capital.", "Lisbon is in Peru.")
SPLIT = answer((json.dumps(STATEMENTS),))


@pytest.fixture
def fake(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HEDDLE_REMOTE_KEY"):
        monkeypatch.delenv(name, raising=False)
    with FakeEndpoint() as running:
        yield running


def judged(fake, *replies, count=1, **bounds):
    """Lay an answer before the judge, `count` times; return the last judgement."""

    async def judge_all():
        endpoints = open_remote_judge(fake.url).endpoints()
        judge = Judge(endpoints, SystemClock(), **bounds)
        try:
            return [await judge.judge(EXHIBIT) for _ in range(count)][-1]
        finally:
            endpoints.close()

    fake.replies.extend(replies)
    return asyncio.run(judge_all())


def test_each_statement_gets_a_verdict(fake):
    judgement = judged(fake, SPLIT, answer(("[1, ", "0]")))
    assert judgement == Judgement(STATEMENTS, (True, False))
    assert judgement.faithfulness == 0.5
    split, decide = (one.body["messages"][-1]["content"] for one in fake.generations)
    assert "Question: Which {city}?" in split
    assert "Answer: Lisbon, in Peru." in split
    assert "The capital is Lisbon." in decide
    assert "2. Lisbon is in Peru." in decide
    assert {one.body["temperature"] for one in fake.generations} == {0.0}


def test_an_answer_that_claims_nothing_is_no_failure(fake):
    judgement = judged(fake, answer(("[]",)))
    assert (judgement.faithfulness, judgement.unjudged) == (None, None)
    assert len(fake.generations) == 1


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ((answer(("I think so.",)),), "statements are no JSON list"),
        ((SPLIT, answer(("[1]",))), "1 verdicts for 2 statements"),
        ((SPLIT, answer(("[1, 0]",), "length")), "was cut at"),
    ],
)
def test_nonsense_is_counted_and_not_guessed(fake, replies, words):
    judgement = judged(fake, *replies)
    assert judgement.unjudged is Unjudged.MALFORMED
    assert judgement.faithfulness is None
    assert words in judgement.words


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (plain(401, {"error": {"message": "sk-secret"}}), "wants a key (401)"),
        (plain(200, "<html>", kind="text/html"), "answers with a web page"),
        ((stream_head(), Step.HANG), "didn't answer within 0.3 s"),
    ],
)
def test_a_judge_that_gives_no_reply_has_failed(fake, reply, words):
    judgement = judged(fake, reply, call_s_max=0.3)
    assert judgement.unjudged is Unjudged.FAILED
    assert words in judgement.words
    assert "sk-secret" not in judgement.words


def test_a_judge_that_fails_again_and_again_is_asked_no_more(fake):
    refusals = [plain(401, {})] * (FAILURES_MAX + 4)
    judgement = judged(fake, *refusals, count=FAILURES_MAX + 4)
    assert "asked no more" in judgement.words
    assert len(fake.generations) == FAILURES_MAX


def test_many_answers_keep_their_order(fake):
    fake.writes = lambda prompt: "[1]" if "Passages:" in prompt else json.dumps([prompt[-3:]])
    exhibits = [Exhibit("Which?", f"No. {n:03}", ()) for n in range(30)]
    seen = []
    found = judge_answers(open_remote_judge(fake.url), exhibits, lambda: seen.append(1))
    assert [one.statements for one in found] == [(f"{n:03}",) for n in range(30)]
    assert len(seen) == 30
    assert JudgedCounts.of(found) == JudgedCounts(30, 30, 30, 0, 0)


def test_only_claims_are_laid_before_a_judge():
    asked = Case(question(), None)
    assert Exhibit.of(Outcome(asked, None, "lane lost")) is None
    assert Exhibit.of(Outcome(asked, answered("Not in the notes"))) is None
    assert Exhibit.of(quoted("Lisbon", 0.5)) is None, "a near place is no answer"
    assert Exhibit.of(quoted("Lisbon", 2.0)) is not None
    laid = Exhibit.of(Outcome(asked, answered("Lisbon", (LISBON,))))
    expected = ("Portugal\nThe capital is Lisbon, on the Tagus.",)
    assert laid == Exhibit("What is the capital?", "Lisbon", expected)


def test_what_is_no_judge_is_refused_before_a_run(fake):
    with pytest.raises(ConfigError, match="--judge: 'smollm2' is no address of a model"):
        open_remote_judge("smollm2")
    with pytest.raises(InputError, match=r"--judge: .* has no model 'other'"):
        open_remote_judge(f"{fake.url}#other")
