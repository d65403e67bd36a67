"""A conversation: each question is made stand-alone, asked, and remembered."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from heddle.app.chat.follow_up import (
    TURNS_KEPT,
    Turn,
    conversation_text,
    leans,
    rewritten,
    with_subject,
)
from heddle.runtime.events import Answer, RequestEvent

Ask = Callable[[str], Iterator[RequestEvent]]
Rewrite = Callable[[Mapping[str, object]], str]


@dataclass(slots=True)
class Conversation:
    """Asks questions that may lean on those before.

    With `rewrite` a model rewrites a follow-up before it is asked. Without one a follow-up that
    leans on the question before gets that one's subject, and so does one without an answer.

    Args:
        ask: asks a question and yields its events.
        rewrite: has a model write the stand-alone question, from `query` and `conversation`; None =
            no model writes.

    Mutates: `history` gets each turn that was answered, and keeps the last ten.
    """

    ask: Ask
    rewrite: Rewrite | None = None
    history: deque[Turn] = field(default_factory=lambda: deque(maxlen=TURNS_KEPT))

    def say(self, question: str) -> Iterator[RequestEvent]:
        """Yield the events of a question; the last one is Answer or RequestFailed.

        Of a question that is asked twice, only the events of the answer that counts are yielded.
        """
        asked = question
        if self.history and self.rewrite is not None:
            inputs = {"query": question, "conversation": conversation_text(self.history)}
            asked = rewritten(question, self.rewrite(inputs))
        events: Iterable[RequestEvent]
        if self.history and self.rewrite is None:
            asked, events = self._better(question)
        else:
            events = self.ask(asked)
        for event in events:
            if isinstance(event, Answer):
                self.history.append(Turn(question, asked, event.text))
            yield event

    def forget(self) -> None:
        """Begin anew."""
        self.history.clear()

    def _better(self, question: str) -> tuple[str, list[RequestEvent]]:
        """Return the question as it was asked, and the events of the answer that counts.

        A question that leans on the one before is asked with its subject first, another one alone.
        Where the first try finds no answer, the other is tried as well.
        """
        subject = with_subject(question, self.history)
        tries = (subject, question) if leans(question) else (question, subject)
        first = list(self.ask(tries[0]))
        if tries[0] == tries[1] or not _is_unanswered(first[-1]):
            return tries[0], first
        second = list(self.ask(tries[1]))
        if _is_answered(second[-1]):
            return tries[1], second
        return tries[0], first


def _is_answered(event: RequestEvent) -> bool:
    return isinstance(event, Answer) and not _is_unanswered(event)


def _is_unanswered(event: RequestEvent) -> bool:
    """Whether an extraction's score says that the passages hold no answer."""
    return isinstance(event, Answer) and not event.quotes and bool(event.nearest)
