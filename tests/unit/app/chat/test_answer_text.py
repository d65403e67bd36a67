"""Which tokens are the answer: what was shown is never taken back."""

import pytest

from heddle.app.chat.answer_text import AnswerText, speaking_node
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, TokenDelta
from heddle.runtime.receipt import ReceiptDraft
from heddle.workflow.presets import preset

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")


def joined(workflow: str, tokens: list[tuple[str, str]], answer: str, *, is_raw: bool = False):
    text = AnswerText(preset(workflow).compile(), is_raw=is_raw)
    shown = [text.take(TokenDelta(node, token)) for node, token in tokens]
    return shown, text.take(Answer(answer, (), {}, RECEIPT))


@pytest.mark.parametrize(
    ("name", "node"),
    [("oneshot", "answer"), ("hyde", "answer"), ("quote", None), ("irg", None)],
)
def test_only_a_node_that_always_speaks_last_is_heard(name: str, node: str | None):
    assert speaking_node(preset(name).compile()) == node


def test_blanks_at_the_ends_of_a_workflows_answer_are_not_shown():
    tokens = [
        ("answer", " \n"),
        ("answer", "Ada"),
        ("answer", " "),
        ("answer", "B."),
        ("answer", "\n"),
    ]
    shown, rest = joined("oneshot", tokens, "Ada B.")
    assert (shown, rest) == (["", "Ada", "", " B.", ""], "")


def test_a_raw_text_is_shown_as_it_came():
    shown, rest = joined("oneshot", [("answer", " Ada"), ("answer", " \n")], "Ada", is_raw=True)
    assert ("".join(shown), rest) == (" Ada \n", "")


def test_what_other_nodes_write_is_not_the_answer():
    shown, rest = joined("hyde", [("imagine", "A dream."), ("answer", "Ada")], "Ada")
    assert (shown, rest) == (["", "Ada"], "")


def test_a_loops_answer_comes_whole_at_the_end():
    shown, rest = joined("irg", [("answer", "first"), ("answer", "second")], "second")
    assert (shown, rest) == (["", ""], "second")
