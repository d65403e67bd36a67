"""Priming: every chunk's KV, raw and then on top of its neighbours', before anyone asks.

The first neighbour is what precedes the chunk in its document: "she" and "the company" are named
there (ADR 20). The others are those nearest to it. Without the former it is FusionRAG's own form,
whose KV is kept apart (ADR 49).

Bulk requests on the runtime, as indexing is. What is stored already is not computed again, so a run
that was stopped, however rudely, goes on where it was. (FusionRAG §3.1)
"""

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

from heddle.app.batch import Patience, submit_patiently
from heddle.app.models.model_files import ModelFiles
from heddle.app.priming.chunk_kv_disk import check_room
from heddle.app.priming.plan import (
    IN_FLIGHT_MAX,
    PrimingPlan,
    PrimingProgress,
    PrimingReport,
    PrimingStage,
    chunks_at_once,
    hits_wanted,
    plan_priming,
    searchable_chunks,
)
from heddle.app.priming.request import (
    NO_NEIGHBOURS,
    PATIENCE_S,
    ChunkToPrime,
    NeighboursWanted,
    PrimingServer,
    primed_by,
    priming_workflow,
)
from heddle.core.errors import ConfigError, InputError
from heddle.core.passages import Passage
from heddle.core.tasks import Optimizations
from heddle.corpus.store import CorpusStore
from heddle.runtime.handle import Handle
from heddle.workflow.workflow import Workflow

NEIGHBOURS_DEFAULT: Final = 10  # FusionRAG's; with 15 its answers get worse (figure 17)


def prime_chunks(
    server: PrimingServer,
    neighbours: NeighboursWanted,
    on_plan: Callable[[PrimingPlan], None],
    on_progress: Callable[[PrimingProgress], None],
) -> PrimingReport:
    """Compute and store the KV of every chunk of a server's corpus; see Server.prime."""
    store, model = _corpus_and_model(server, neighbours.count_max)
    plan = plan_priming(server.config, model, store, neighbours.primed_with)
    on_plan(plan)
    check_room(server.config, plan.disk_bytes)
    at_once = chunks_at_once(server.config, plan, neighbours.count_max)
    store.chunk_kv.set_neighbours_max(model.name, neighbours.primed_with, neighbours.count_max)
    started_s = server.clock.now_s()
    raw = _Run(server, PrimingStage.RAW, NO_NEIGHBOURS, plan, on_progress)
    raw.prime_all(store, IN_FLIGHT_MAX)
    primed = _Run(server, PrimingStage.PRIMED, neighbours, plan, on_progress)
    primed.prime_all(store, at_once)
    return PrimingReport(
        plan,
        {run.stage: run.computed for run in (raw, primed)},
        raw.too_long,
        server.clock.now_s() - started_s,
    )


class _Run:
    """One stage over all chunks. Mutates: its counts."""

    def __init__(
        self,
        server: PrimingServer,
        stage: PrimingStage,
        neighbours: NeighboursWanted,
        plan: PrimingPlan,
        on_progress: Callable[[PrimingProgress], None],
    ) -> None:
        self.stage = stage
        self.computed = self.too_long = 0
        self._server = server
        self._plan = plan
        self._neighbours = neighbours
        self._workflows: dict[tuple[str, str], Workflow] = {}  # by the chunk's owner
        self._on_progress = on_progress
        self._texts: set[bytes] = set()  # digests of those that were sent
        self._done = 0
        self._started_s = server.clock.now_s()

    def prime_all(self, store: CorpusStore, at_once: int) -> None:
        """Have the KV of every chunk stored; an error cancels the requests in flight."""
        in_flight: deque[Handle] = deque()
        self._report()
        try:
            last: Passage | None = None
            for passage, vector in searchable_chunks(store):
                if len(in_flight) == at_once:
                    self._take(in_flight.popleft())
                if self._is_repeated(passage):
                    self._end_one()
                else:
                    before = self._before(passage, last, store)
                    chunk = ChunkToPrime(passage, before, vector)
                    in_flight.append(self._submit(chunk, in_flight))
                last = passage
            while in_flight:
                self._take(in_flight.popleft())
        finally:
            for handle in in_flight:
                handle.cancel_soon()

    def _before(
        self, passage: Passage, last: Passage | None, store: CorpusStore
    ) -> tuple[Passage, ...]:
        """Return what precedes a chunk in its document, which mostly is the chunk read `last`.

        It is another where its text stands in several documents, and is searched in one of them.
        """
        if not self._neighbours.count_max:
            return ()
        if last is not None and last.precedes(passage):
            return (last,)
        before = store.chunk_kv.passage_before(passage.chunk_id)
        return () if before is None else (before,)

    def _submit(self, chunk: ChunkToPrime, in_flight: deque[Handle]) -> Handle:
        owner = chunk.passage.tenant, chunk.passage.collection
        if owner not in self._workflows:
            owned = self._plan.owned.get(owner, 1)  # one that came after the plan has few
            hits = hits_wanted(owned, self._plan.chunks, self._neighbours.count_max)
            self._workflows[owner] = priming_workflow(self._neighbours, hits)
        submit, inputs = chunk.request(self._server.submit, self._workflows[owner])
        return submit_patiently(submit, inputs, in_flight, Patience(PATIENCE_S))

    def _take(self, handle: Handle) -> None:
        try:
            self.computed += primed_by(handle).is_new
        except InputError:
            self.too_long += 1  # no prompt can show it either
        self._end_one()

    def _is_repeated(self, passage: Passage) -> bool:
        """Whether a text of the same tenant and collection came before.

        Prompts can't tell the two apart, so there is one KV for both; primed for each of them it
        would be replaced, there and back, in every run.
        """
        text = f"{passage.tenant}\0{passage.collection}\0{passage.render()}".encode()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        is_repeated = digest in self._texts
        self._texts.add(digest)
        return is_repeated

    def _end_one(self) -> None:
        self._done += 1
        self._report()

    def _report(self) -> None:
        seconds = self._server.clock.now_s() - self._started_s
        rate = self.computed / seconds if self.computed and seconds > 0 else None
        total = max(self._plan.chunks, self._done)  # more may be indexed meanwhile
        left_s = (total - self._done) / rate if rate else None
        self._on_progress(
            PrimingProgress(self.stage, self._done, total, self.computed, rate, left_s)
        )


def _corpus_and_model(server: PrimingServer, neighbours_max: int) -> tuple[CorpusStore, ModelFiles]:
    """Return the corpus of a server that can prime it, and the model that it is primed for.

    Raises:
        ConfigError: it can't; the message names the setting.
    """
    config = server.config
    if server.store is None or server.generator is None:
        raise ConfigError("priming needs a generator and an index; the server lacks one of them")
    if config.optimizations_max is not Optimizations.APPROX:
        raise ConfigError(
            "this server keeps no chunk KV, for its use is approximate: allow that with "
            "optimizations=Optimizations.APPROX"
        )
    if not config.kv_reuse_memory_bytes:
        raise ConfigError("kv_reuse_memory_bytes is 0, so this server keeps no chunk KV: raise it")
    if neighbours_max < 1:
        raise ConfigError(
            f"neighbours_max (--prime-neighbours) must be at least 1, got {neighbours_max}"
        )
    return server.store, server.generator
