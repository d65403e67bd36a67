"""A client that searches all the time, and judges the hits."""

import math
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from heddle.core.commands import Admit
from heddle.core.errors import Unreachable
from heddle.core.frames import Done, Failed
from heddle.core.payloads import SearchPayload
from heddle.core.ports import SteppedEngine
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.search_scope import SearchScope
from heddle.core.tasks import Identity, Task
from heddle.corpus.store import CorpusStore
from tools.attacks.postgres.ledger import Ledger
from tools.attacks.postgres.writer import TENANTS, WORDS, vectors_of

TOPK: Final = 10
HYBRID_SHARE: Final = 0.1
AWAY: Final = "can't be reached"
PAUSE_S: Final = 0.002


class Searcher:
    """Searches one index, which follows the corpus.

    Args:
        engine: of the vector lane.
        store: the corpus, for searches by words.
        ledger: knows whose each chunk is, and which are deleted.
        seed: of its random choices.
    """

    def __init__(
        self, engine: SteppedEngine, store: CorpusStore, ledger: Ledger, seed: int
    ) -> None:
        self._engine, self._store, self._ledger = engine, store, ledger
        self._random = random.Random(seed)
        self._number = 0
        self._pause = threading.Event()
        self.searches = self.stale = self.failed = self.foreign = self.deleted_shown = 0

    def run(self, wants_more: Callable[[], bool]) -> None:
        """Search until enough was found."""
        while wants_more():
            self.search()
            self._pause.wait(PAUSE_S)

    def search(self) -> Hits | None:
        """Search once; None = it failed, which while the database is away it may."""
        tenant = self._random.choice((*TENANTS, "carl"))
        gone = self._ledger.gone()
        try:
            if self._random.random() < HYBRID_SHARE:
                words = " ".join(self._random.choices(WORDS, k=2))
                found = self._store.by_words(words, TOPK, SearchScope(tenant)).chunk_ids.tolist()
                self._judge(found, tenant, gone)
                self.searches += 1
                return None
        except Unreachable:
            self.failed += 1
            return None
        hits = self._hits(tenant)
        if hits is None:
            self.failed += 1
            return None
        self.searches += 1
        is_stale = any(AWAY in note for note in hits.notes)
        self.stale += is_stale
        found = [int(one) for one in hits.labels.ravel() if one >= 0]
        self._judge(found, tenant, frozenset() if is_stale else gone)
        return hits

    def _judge(self, found: list[int], tenant: str, gone: frozenset[int]) -> None:
        self.foreign += self._ledger.foreign(found, tenant)
        self.deleted_shown += len(gone.intersection(found))

    def _hits(self, tenant: str) -> Hits | None:
        self._number += 1
        query = vectors_of([self._random.randrange(1 << 30)])
        payload = SearchPayload(query, TOPK, scope=SearchScope(tenant))
        identity = Identity(self._number, "search")
        self._engine.apply(Admit(Task(self._number, PrimitiveKind.SEARCHING, identity, payload), 0))
        while True:
            for event in self._engine.step(time.perf_counter(), math.inf).events:
                if isinstance(event, Done) and isinstance(event.result, Hits):
                    return event.result
                if isinstance(event, Failed):
                    return None
