"""Chunks that are without primed KV, primed once a request has met them. (FusionRAG §3.1)

When a chunk is changed or deleted, all KV computed on top of it is forgotten before the next
prompt looks for stored KV (`CorpusChunkStore`). So no prompt reads outdated KV: raw KV takes its
place. The prompt's receipt names the chunks that lacked primed KV (`FusedKv.unprimed`), and they
wait here. They are primed one at a time, as `Server.prime` does it: by bulk requests, in the time
that queries leave. Work left at shutdown is queued again when a request next meets those chunks.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from heddle.app.batch import WAIT_S_MIN
from heddle.app.models.model_files import ModelFiles
from heddle.app.observe.server_state import ReprimingState
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory, write_problem
from heddle.app.priming.plan import hits_wanted
from heddle.app.priming.request import (
    NO_NEIGHBOURS,
    ChunkToPrime,
    NeighboursWanted,
    primed_by,
    priming_workflow,
)
from heddle.app.server_config import ServerConfig
from heddle.core.errors import Busy, Cancelled, HeddleError, InputError
from heddle.core.kv_reuse import PrimedWith
from heddle.core.tasks import Optimizations
from heddle.corpus.store import CorpusStore
from heddle.runtime.events import Answer, RequestEvent
from heddle.runtime.handle import Handle
from heddle.runtime.request import EventSink
from heddle.workflow.workflow import Workflow

WAITING_MAX: Final = 1024  # chunks; those beyond are met again
SETTLED_MAX: Final = 1 << 16  # chunks remembered as primed as well as can be
RETRY_S: Final = 60.0  # a disk or an engine that has failed is tried again with one chunk

log = logging.getLogger(__name__)


class Met(NamedTuple):
    """A chunk that a request has met without the primed KV that it wanted."""

    chunk_id: int
    primed_with: PrimedWith


class Repriming:
    """Primes what requests have met without primed KV, where the corpus was primed for the model.

    A chunk is tried once in each revision of the corpus, for some never have primed KV: those
    without neighbours, and those that the disk's budget has no room for.

    Args:
        store: the corpus.
        model: the name by which the corpus records the model that it is primed for.
        submit: Server.submit.
        waiting_max: chunks that may wait.
        retry_s: how long it rests after a failure [s].

    Mutates: a thread of its own runs from the first chunk that is met until `stop`.
    """

    def __init__(
        self,
        store: CorpusStore,
        model: str,
        submit: Callable[..., Handle],
        waiting_max: int = WAITING_MAX,
        retry_s: float = RETRY_S,
    ) -> None:
        self._store = store
        self._model = model
        self._submit = submit
        self._waiting_max = waiting_max
        self._retry_s = retry_s
        self._waiting: dict[Met, None] = {}
        self._settled: OrderedDict[Met, tuple[int, int]] = OrderedDict()  # by revision and count
        self._primed = self._failed = self._dropped = 0
        self._problem = write_problem(chunk_kv_directory(store.place.work))
        self._is_off = bool(self._problem)
        self._changed = threading.Condition()  # guards all but `_settled`, which is the thread's
        self._thread = threading.Thread(target=self._run, name="heddle-repriming", daemon=True)
        if self._problem:
            log.info("nothing is primed again: %s", self._problem)  # the engine warns of it

    def watched(self, sink: EventSink) -> EventSink:
        """Return a sink that passes a request's events on and takes in the chunks that it met."""

        def push(event: RequestEvent) -> None:
            if isinstance(event, Answer):
                for fused in event.receipt.kv_reuse:
                    if fused.primed_with is not None:
                        self.met(fused.unprimed, fused.primed_with)
            sink(event)

        return push

    def met(self, chunk_ids: Iterable[int], primed_with: PrimedWith) -> None:
        """Take in chunks that were to have KV primed so and had none; returns at once."""
        found = dict.fromkeys(Met(chunk_id, primed_with) for chunk_id in chunk_ids)
        with self._changed:
            new = [one for one in found if one not in self._waiting]
            if self._is_off or not new:
                return
            taken = new[: self._waiting_max - len(self._waiting)]
            self._waiting.update(dict.fromkeys(taken))
            dropped = len(new) - len(taken)
            self._dropped += dropped
            if not self._thread.is_alive():
                self._thread.start()
            self._changed.notify_all()
        if dropped:
            log.info("%d chunks are not primed again now: %d wait", dropped, self._waiting_max)

    def state(self) -> ReprimingState:
        """Return what waits and what was done so far."""
        with self._changed:
            return ReprimingState(
                len(self._waiting), self._primed, self._failed, self._dropped, self._problem
            )

    def stop(self) -> None:
        """Begin nothing more; what is under way ends with its request."""
        with self._changed:
            self._is_off = True
            self._waiting.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the thread to end, once its request has."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while (met := self._next()) is not None:
                self._try(met)
        except Exception as error:
            log.exception("priming chunks again broke an invariant: it ends")
            with self._changed:
                self._is_off = True
                self._waiting.clear()
                self._problem = f"{type(error).__name__}: {error}"

    def _next(self) -> Met | None:
        """Wait for a chunk, which counts as waiting while it is tried; None: told to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_off)
            return next(iter(self._waiting), None)

    def _try(self, met: Met) -> None:
        """Prime a chunk; after a failure that others would meet as well, rest."""
        is_new, problem, rest_s = False, "", 0.0
        try:
            is_new = self._prime(met)
        except InputError as error:  # longer than the context: no prompt can show it either
            problem = str(error)
        except HeddleError as error:
            self._settled.pop(met, None)
            problem, rest_s = str(error), self._retry_s
        with self._changed:
            if self._is_off:
                return
            del self._waiting[met]
            self._primed += is_new
            self._failed += bool(problem)
            self._problem = problem if rest_s else ""
            if problem:
                log.info("chunk %d is not primed again: %s", met.chunk_id, problem)
            self._changed.wait_for(lambda: self._is_off, rest_s)

    def _prime(self, met: Met) -> bool:
        """Compute and store a chunk's raw and primed KV; return whether the latter is new."""
        neighbours_max = self._store.chunk_kv.neighbours_max(self._model, met.primed_with)
        revision = self._store.revision
        if neighbours_max is None or self._settled.get(met) == (revision, neighbours_max):
            return False
        self._settled[met] = revision, neighbours_max
        if len(self._settled) > SETTLED_MAX:
            self._settled.popitem(last=False)
        chunk = self._chunk(met.chunk_id)
        if chunk is None:
            return False
        owned = self._store.chunk_kv.count_owned(chunk.passage.tenant, chunk.passage.collection)
        hits = hits_wanted(owned, self._store.vector_count, neighbours_max)
        self._compute(chunk, priming_workflow(NO_NEIGHBOURS, hits))
        wanted = NeighboursWanted(neighbours_max, met.primed_with)
        return self._compute(chunk, priming_workflow(wanted, hits))

    def _chunk(self, chunk_id: int) -> ChunkToPrime | None:
        """Read a chunk; None: it is deleted."""
        batch = self._store.chunk_kv.vectors_of([chunk_id])
        passages = self._store.passages([chunk_id])
        if not passages or not len(batch.chunk_ids):
            return None
        before = self._store.chunk_kv.passage_before(chunk_id)
        return ChunkToPrime(passages[0], () if before is None else (before,), batch.vectors[0])

    def _compute(self, chunk: ChunkToPrime, workflow: Workflow) -> bool:
        """Have KV of a chunk on disk; return whether it is new there."""
        ask, inputs = chunk.request(self._submit, workflow)
        while True:
            try:
                return primed_by(ask(inputs)).is_new
            except Busy as busy:
                wait_s = max(busy.wait_s, WAIT_S_MIN)
            with self._changed:
                if self._changed.wait_for(lambda: self._is_off, wait_s):
                    raise Cancelled("nothing is primed any more")


def repriming_of(
    config: ServerConfig,
    generator: ModelFiles | None,
    store: CorpusStore | None,
    submit: Callable[..., Handle],
) -> Repriming | None:
    """Return what primes a server's chunks again; None where it keeps no primed KV.

    Args:
        config: the server's.
        generator: its LLM's files, if it has one.
        store: its corpus, if it has one.
        submit: Server.submit.
    """
    is_approximate = config.optimizations_max is Optimizations.APPROX
    keeps = config.kv_reuse_memory_bytes > 0 and config.kv_reuse_disk_bytes != 0
    if store is None or generator is None or not (is_approximate and keeps and config.reprime):
        return None
    return Repriming(store, generator.name, submit)
