"""What a retrieval gives is what a plain search of the same lists finds for that tenant."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import Admit, Command
from heddle.core.passages import Passage
from heddle.core.payloads import SearchPayload
from heddle.core.search_scope import SearchScope, both
from heddle.runtime.events import RequestEvent, Retrieved
from heddle.simulator.checks.check import Check
from heddle.simulator.cost_model_vector import CostModelScanner
from heddle.simulator.library import TENANT_OF_FEW, found_by, may_find
from heddle.simulator.ticket import Ticket
from heddle.workflow.nodes import RetrievalNode


@dataclass(slots=True)
class SearchCheck(Check):
    """Searches again for every retrieval, at once and in one piece, and compares.

    Args:
        scanner: another one over the same vectors.
        has_owners: whether chunks are of tenants.
    """

    scanner: CostModelScanner = field(kw_only=True)
    has_owners: bool = field(kw_only=True)
    _asked: dict[tuple[int, str], list[SearchPayload]] = field(default_factory=dict)

    def sent(self, lane: str, command: Command, now_s: float) -> None:
        """Keep what a request's node searches for until it hears what was found."""
        if isinstance(command, Admit) and isinstance(command.task.payload, SearchPayload):
            identity = command.task.identity
            key = identity.request_id, identity.node
            self._asked.setdefault(key, []).append(command.task.payload)

    def heard(self, ticket: Ticket, event: RequestEvent, now_s: float) -> None:
        """Compare a retrieval's passages with the plain search."""
        if not isinstance(event, Retrieved) or ticket.request_id is None:
            return
        asked = self._asked.pop((ticket.request_id, event.node), None)
        if asked is None:
            self.complain(f"{ticket} was given passages that {event.node} didn't search for")
            return
        scope = self._scope(ticket, event.node)
        chunk_ids = [passage.chunk_id for passage in event.passages]
        self._look_for_others(ticket, scope, event.passages)
        expected = self._expected(asked, scope)
        if expected is not None and chunk_ids not in expected:
            self.complain(f"{ticket}: {event.node} found {chunk_ids}, there is {expected[0]}")

    def _scope(self, ticket: Ticket, node_id: str) -> SearchScope:
        node = ticket.arrival.workflow.nodes.get(node_id)
        own = node.where if isinstance(node, RetrievalNode) else ()
        return SearchScope(ticket.arrival.tenant, both(own, ticket.arrival.where))

    def _look_for_others(
        self, ticket: Ticket, scope: SearchScope, passages: tuple[Passage, ...]
    ) -> None:
        for passage in passages:
            if not may_find(scope, passage.chunk_id, has_owners=self.has_owners):
                who = f"tenant {scope.tenant!r} with filter {scope.where}"
                self.complain(f"{ticket} was given chunk {passage.chunk_id}, hidden from {who}")

    def _expected(
        self, asked: list[SearchPayload], scope: SearchScope
    ) -> tuple[list[int], list[int]] | None:
        """Return the nearest chunks over all rows, and those of each row, one after the other.

        None = that depends on more lists. Which of them a retrieval gives, its node says; a
        workflow function has no nodes before it runs.
        """
        topk = asked[0].topk
        best: dict[int, float] = {}
        each: dict[int, None] = {}
        for payload in asked:
            for query in payload.queries:
                found = self._found(query[None], payload.nprobe, scope)
                if len(found) < topk:
                    return None  # a filtered search goes on to further lists
                for distance, label in sorted(found)[:topk]:
                    best[label] = min(distance, best.get(label, np.inf))
                    each[label] = None
        return sorted(best, key=lambda label: (best[label], label))[:topk], list(each)

    def _found(
        self, query: NDArray[np.float32], nprobe: int | None, scope: SearchScope
    ) -> list[tuple[float, int]]:
        lists = len(self.scanner.list_sizes)
        if not self.has_owners and not scope.where:
            return self.scanner.plain_search(query, nprobe or self.scanner.nprobe_default, None)
        chunk_ids = range(int(self.scanner.list_sizes.sum()))
        allowed = found_by(scope, chunk_ids, has_owners=self.has_owners)
        wanted = lists if scope.tenant == TENANT_OF_FEW else nprobe
        return self.scanner.plain_search(query, wanted or self.scanner.nprobe_default, allowed)
