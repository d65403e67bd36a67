"""A conversation over answers that a test scripts."""

from collections.abc import Iterator

from heddle.app.chat.conversation import Conversation
from heddle.app.chat.follow_up import TURNS_KEPT
from heddle.core.errors import EngineError
from heddle.core.passages import Passage
from heddle.core.quotations import NOT_FOUND, Quotation
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.receipt import ReceiptDraft

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")
QUOTE = Quotation("1911", "Built in 1911.", Passage(1, "d", "t", "Built in 1911."), 9, 13, 0, 3.0)
FOUND = Answer("1911", (), {}, RECEIPT, (QUOTE,))
MISSING = Answer(NOT_FOUND, (), {}, RECEIPT, (), (QUOTE,))
FAILED = RequestFailed(EngineError("lost", engine="e", request_ids=(1,)))


class Scripted:
    """Answers the questions of a script, and notes all questions."""

    def __init__(self, **known: RequestEvent) -> None:
        self.known, self.asked = known, []

    def __call__(self, question: str) -> Iterator[RequestEvent]:
        self.asked.append(question)
        yield self.known.get(question.partition(" ")[0].strip("?"), MISSING)


def test_a_follow_up_that_leans_is_asked_with_the_subject():
    ask = Scripted(Who=FOUND, And=FOUND)
    conversation = Conversation(ask)
    assert list(conversation.say("Who built the mill?")) == [FOUND]
    assert list(conversation.say("And when?")) == [FOUND]
    assert ask.asked == ["Who built the mill?", "And when? (built mill)"]
    assert [turn.asked for turn in conversation.history][-1] == "And when? (built mill)"


def test_where_one_try_finds_nothing_the_other_is_made():
    ask = Scripted(Who=FOUND)
    conversation = Conversation(ask)
    list(conversation.say("Who built the mill?"))
    assert list(conversation.say("Where is the church tower?")) == [MISSING]
    assert ask.asked[1:] == [
        "Where is the church tower?",
        "Where is the church tower? (built mill)",
    ]
    assert conversation.history[-1].asked == "Where is the church tower?"


def test_one_that_is_answered_alone_is_asked_once():
    ask = Scripted(Who=FOUND, Where=FOUND)
    conversation = Conversation(ask)
    list(conversation.say("Who built the mill?"))
    assert list(conversation.say("Where is the church tower?")) == [FOUND]
    assert len(ask.asked) == 2


def test_a_model_rewrites_every_follow_up():
    ask, inputs = Scripted(), []

    def rewrite(given: object) -> str:
        inputs.append(given)
        return "When was the mill built?\n"

    conversation = Conversation(ask, rewrite)
    list(conversation.say("Who built the mill?"))
    list(conversation.say("And when?"))
    assert ask.asked == ["Who built the mill?", "When was the mill built?"]
    [given] = inputs
    assert given["query"] == "And when?"
    assert given["conversation"].startswith("Question: Who built the mill?\nAnswer: ")


def test_what_failed_or_was_forgotten_is_no_history():
    conversation = Conversation(Scripted(Lost=FAILED))
    assert list(conversation.say("Lost?")) == [FAILED]
    assert not conversation.history
    for number in range(TURNS_KEPT + 5):
        list(conversation.say(f"Question {number}?"))
    assert len(conversation.history) == TURNS_KEPT
    conversation.forget()
    assert not conversation.history


def test_a_second_try_that_fails_leaves_the_first():
    answers = iter([MISSING, MISSING, FAILED])
    conversation = Conversation(lambda question: iter([next(answers)]))
    list(conversation.say("Who built the mill?"))
    assert list(conversation.say("Where is the church tower?")) == [MISSING]
    assert conversation.history[-1].asked == "Where is the church tower?"
