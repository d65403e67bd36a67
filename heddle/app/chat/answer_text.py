"""Which of a request's tokens are its answer, as far as they may be shown while it runs."""

import logging
from typing import Final

from heddle.app.chat.tool_calls import ToolCall
from heddle.runtime.events import Answer, RequestEvent, TokenDelta
from heddle.workflow.nodes import GenerationNode, Parse
from heddle.workflow.workflow import Workflow

APART: Final = "\n\n"

log = logging.getLogger(__name__)


class AnswerText:
    """The text of an answer, piece by piece.

    The pieces joined are the answer. Of a workflow whose last node is known from the start, tokens
    are shown as they come; of others, such as one with a loop behind its answer, the text comes
    whole at the end, as what was shown can't be taken back.

    Args:
        workflow: what runs.
        is_raw: whether blanks at both ends belong to the text, as a model has written it.
    """

    def __init__(self, workflow: Workflow, *, is_raw: bool) -> None:
        self._node = speaking_node(workflow)
        self._is_raw = is_raw
        self._held = ""
        self.shown = ""
        self.calls: tuple[ToolCall, ...] = ()  # none: CallText finds them

    def take(self, event: RequestEvent) -> str:
        """Return the text that an event adds; "" = none."""
        new = ""
        if isinstance(event, TokenDelta) and event.node == self._node:
            new = event.text if self._is_raw else self._without_ends(event.text)
        elif isinstance(event, Answer):
            new = self._rest(event)
        self.shown += new
        return new

    def _without_ends(self, text: str) -> str:
        """Return what is sure to stand between the first and the last word."""
        text = self._held + text
        if not self.shown:
            text = text.lstrip()
        new = text.rstrip()
        self._held = text[len(new) :]
        return new

    def _rest(self, answer: Answer) -> str:
        if self._is_raw and self.shown:
            return ""
        if answer.text.startswith(self.shown):
            return answer.text[len(self.shown) :]
        # No known way leads here; the answer counts.
        log.warning("a request's tokens are not its answer, which was sent behind them")
        return f"{APART}{answer.text}"


def speaking_node(workflow: Workflow) -> str | None:
    """Return the node whose tokens are the answer of every request; None = it isn't known ahead."""
    if workflow.function is not None or len(workflow.outputs) != 1:
        return None
    [key] = workflow.outputs
    node = workflow.nodes[key]
    goes_on = key in workflow.branch_of or bool(workflow.successors[key])
    if goes_on or not isinstance(node, GenerationNode) or node.parse is Parse.LINES:
        return None
    return str(key)
