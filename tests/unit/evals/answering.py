"""A server that answers from a function, for tests of everything around a model."""

from types import SimpleNamespace

from heddle.app.models.remote_models import NO_REMOTE_MODELS
from heddle.core.errors import Busy, HeddleError
from heddle.core.tasks import Optimizations
from heddle.evals.context import Case
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.run import Outcome
from heddle.evals.scores import score
from heddle.runtime.events import Answer, RequestFailed
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft

LISBON = given_passage("d1", "Portugal", "The capital is Lisbon, on the Tagus.")
PORTO = given_passage("d2", "Porto", "Porto lies on the Douro.")


def answer(text, passages=()):
    receipt = ReceiptDraft(prompt_tokens=7).close(Optimizations.EXACT, 0.25, "exact")
    return Answer(text, tuple(passages), {}, receipt)


def question(name="q1", asks="What is the capital?", answers=("Lisbon",), **known):
    return EvalQuestion(name, asks, tuple(answers), **known)


def scored(text, asked=None, shown=(), passages=None):
    """Score an answer; `text=None` is a question that failed."""
    case = Case(asked or question(), passages)
    got = None if text is None else answer(text, shown)
    return score(Outcome(case, got, "" if got else "lane lost"))


class AnsweringServer:
    """Ends a request as `reply(inputs)` says: a text, an Answer, or an error.

    Requests stay in flight until somebody needs room or asks: at most `room` at once.
    """

    plan = SimpleNamespace(remote=NO_REMOTE_MODELS)

    def __init__(self, reply, room=1000):
        self.reply = reply
        self.room = room
        self.open = []
        self.submitted = []
        self.most_open = 0
        self.cancelled = 0

    def submit(self, workflow, inputs):
        self.open = [handle for handle in self.open if not handle.is_done]
        if len(self.open) >= self.room:
            raise Busy("full", wait_s=0.1)
        end = self.reply(inputs)
        if isinstance(end, HeddleError) and getattr(end, "at_submission", False):
            raise end
        self.submitted.append((workflow, inputs))
        handle = LateHandle(self, end)
        self.open.append(handle)
        self.most_open = max(self.most_open, len(self.open))
        return handle

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class LateHandle(Handle):
    """Ends when its result is asked for."""

    def __init__(self, server, end):
        super().__init__(self._count)
        self.server = server
        self.end = end

    def _count(self):
        self.server.cancelled += 1

    def result(self, timeout_s=None):
        if not self.is_done:
            if isinstance(self.end, BaseException) and not isinstance(self.end, HeddleError):
                raise self.end
            end = answer(self.end) if isinstance(self.end, str) else self.end
            self.push(RequestFailed(end) if isinstance(end, HeddleError) else end)
        return super().result(timeout_s)
