"""What a caller was shown is what the answer says, and nothing was shown twice."""

from dataclasses import dataclass, field

from heddle.runtime.events import Answer, NodeFinished, NodeStarted, RequestEvent, TokenDelta
from heddle.runtime.written_list import as_lines
from heddle.simulator.checks.check import Check
from heddle.simulator.ticket import Ticket
from heddle.workflow.nodes import GenerationNode


@dataclass(slots=True)
class StreamCheck(Check):
    """Joins what a node streams in a turn and compares it with the value of the node's slot."""

    _shown: dict[tuple[int, str], str] = field(default_factory=dict)  # by ticket and node
    _told: set[tuple[int, RequestEvent]] = field(default_factory=set)

    def heard(self, ticket: Ticket, event: RequestEvent, now_s: float) -> None:
        """Keep what is shown, and compare it once the answer is there."""
        if isinstance(event, TokenDelta):
            key = id(ticket), event.node
            self._shown[key] = self._shown.get(key, "") + event.text
        elif isinstance(event, NodeStarted | NodeFinished):
            self._tell(ticket, event)
        elif isinstance(event, Answer):
            self._compare(ticket, event)

    def _tell(self, ticket: Ticket, event: NodeStarted | NodeFinished) -> None:
        if (id(ticket), event) in self._told:
            self.complain(f"{ticket} was told twice: {event}")
        self._told.add((id(ticket), event))
        if isinstance(event, NodeStarted):
            self._shown.pop((id(ticket), event.node), None)

    def _compare(self, ticket: Ticket, answer: Answer) -> None:
        for node in ticket.arrival.workflow.nodes.values():
            shown = self._shown.get((id(ticket), str(node.id)))
            if shown is None or not isinstance(node, GenerationNode):
                continue
            value = answer.slots.get(node.output)
            if value not in (shown.strip(), as_lines(shown) or ("",)):
                self.complain(f"{ticket} was shown {shown!r} by {node.id}, which wrote {value!r}")
