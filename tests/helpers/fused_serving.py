"""An LLM engine with a chunk KV store, driven by hand; it keeps the logits behind each token."""

import threading
from dataclasses import replace
from pathlib import Path

from benchmarks.llm_parity import NoText, RecordingWorker
from heddle.core.commands import Admit, Release
from heddle.core.frames import Cancelled, Done, Failed, Progress
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import (
    AskPayload,
    DecodePayload,
    PrefillPayload,
    PrimePayload,
    Sampling,
    Segment,
    SegmentRole,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Asked, Prefilled, Primed
from heddle.core.tasks import Identity, Optimizations, Task
from heddle.engines.llm.attention.choice import COMPILED
from heddle.engines.llm.build import LlmSettings, spec_of
from heddle.engines.llm.engine import LlmEngine
from heddle.engines.llm.model.worker import WorkerClock, kv_shape
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock

EVERYTHING = KvReuse(ReusePolicy.FULL_REUSE)


def segments(prefix, chunks, question):
    """Return a prompt's segments."""
    return (
        Segment(tuple(prefix)),
        *(Segment(tuple(chunk), SegmentRole.CHUNK) for chunk in chunks),
        Segment(tuple(question)),
    )


class InstantStore(ChunkStore):
    """Says that its disk takes no time, so that all it holds is loaded: a tiny model prefills it
    in less time than any real disk takes."""

    def predicted_load_s(self, found):
        return [0.0 for _ in found]


class FusedServing:
    """One engine and its store; requests run one at a time unless started together.

    With a `reuse_problem` the engine has no fuser, for this reason. Prompts reuse what is stored
    whether that pays or not, which it hardly does in a tiny model, unless they are `guarded`.
    """

    def __init__(
        self,
        model,
        *,
        step_tokens=512,
        pages=256,
        fingerprint="tiny",
        attention=COMPILED,
        store_class=InstantStore,
        reuse_problem="",
        guarded=False,
        clock=None,
        prior_s=None,
        **store,
    ):
        token_bytes = kv_shape(model.config, model.dtype).token_bytes
        settings = LlmSettings(
            Path("unused"),
            max_num_batched_tokens=step_tokens,
            page_size=16,
            kv_bytes=pages * 16 * token_bytes,
            context_tokens_max=min(pages * 16, 1024),
        )
        spec = replace(spec_of(settings, model, "tiny"), reuse_problem=reuse_problem)
        spec = replace(spec, prior_s={**spec.prior_s, **(prior_s or {})})
        self.store = store_class(
            ChunkStoreSettings(
                **{"host_bytes_max": 1 << 28, "encoding": KvEncoding.AS_COMPUTED, **store}
            ),
            fingerprint,
            WorkerClock(),
        )
        limits = spec.limits
        pool_tokens = limits.page_count * limits.page_size
        self.worker = RecordingWorker(model, pool_tokens, attention=attention)
        self.fuser = Fuser(self.store, self.worker, fingerprint)
        self.engine = LlmEngine(
            "llm",
            1,
            self.worker,
            spec,
            NoText(),
            clock or WorkerClock(),
            fuser=None if reuse_problem else self.fuser,
        )
        self.model = model
        self.prefilled = {}
        self.primed = {}
        self.asked = {}  # None: cancelled
        self.tokens = {}
        self.logits = {}
        self.preemptions = {}
        self.last = None  # the newest frame
        self.seconds_left = float("inf")  # to the deadline of what is sent from now on
        self._next = 0
        self._guarded = guarded

    def start(self, prompt, reuse=EVERYTHING, new_tokens=1, *, decodes=True, salt="", load_id=None):
        """Send a prompt and, unless told otherwise, its decode; return the request's number."""
        number, self._next = self._next, self._next + 2
        reuse = reuse if self._guarded else replace(reuse, always=True)
        payload = PrefillPayload(prompt, salt, reuse, load_id=load_id)
        self._admit(number, PrimitiveKind.PREFILLING, payload)
        if decodes:
            self.decode(number, new_tokens)
        return number

    def start_priming(self, prompt, salt=""):
        """Send a prompt whose last chunk is to be stored; return the request's number."""
        number, self._next = self._next, self._next + 2
        self._admit(number, PrimitiveKind.PRIMING, PrimePayload(tuple(prompt), salt))
        return number

    def start_asking(self, question, salt=""):
        """Send a question ahead of its prompt; return the request's number."""
        number, self._next = self._next, self._next + 2
        self._admit(number, PrimitiveKind.ASKING, AskPayload(tuple(question), salt))
        return number

    def prime(self, prompt, salt=""):
        """Have a prompt's last chunk stored; return what is answered once it is on disk."""
        number = self.start_priming(prompt, salt)
        while number not in self.primed:
            self.drain_loads([])
            self.store.flush()
        return self.primed[number]

    def decode(self, number, new_tokens, draft=()):
        """Send a request's decode."""
        payload = DecodePayload(number, Sampling(new_tokens, ignore_eos=True), draft=draft)
        self._admit(number + 1, PrimitiveKind.DECODING, payload)

    def _admit(self, task_id, kind, payload):
        who = Identity(task_id, "test")
        task = Task(
            task_id, kind, who, payload, self.seconds_left, optimizations=Optimizations.APPROX
        )
        self.engine.apply(Admit(task, 1))

    def drain(self):
        """Step until nothing is left to do."""
        while self.engine.has_work:
            self.step()

    def drain_loads(self, numbers):
        """Step until these requests are answered, waiting for what comes from disk."""
        woken = threading.Event()
        self.engine.subscribe(woken.set)
        self.drain()
        while not set(numbers) <= self.tokens.keys():
            assert woken.wait(10), "no load has ended"
            woken.clear()
            self.drain()

    def step(self):
        """Run one step; each token's Progress comes in the logits' order."""
        self.last = frame = self.engine.step(0.0, float("inf"))
        self.engine.check()
        drawn = [e for e in frame.events if isinstance(e, Progress) and e.token_ids]
        for progress, row in zip(drawn, self.worker.last if drawn else (), strict=True):
            self.logits.setdefault(progress.task_id - 1, []).append(row.clone())
        for event in frame.events:
            assert not isinstance(event, Failed), event
            if isinstance(event, Done) and isinstance(event.result, Prefilled):
                self.prefilled[event.task_id] = event.result
            elif isinstance(event, Done) and isinstance(event.result, Primed):
                self.primed[event.task_id] = event.result
            elif isinstance(event, Done) and isinstance(event.result, Asked):
                self.asked[event.task_id] = event.result.problem
            elif isinstance(event, Cancelled):
                self.asked[event.task_id] = None
            elif isinstance(event, Done):
                self.tokens[event.task_id - 1] = event.result.token_ids
                prefilled = self.prefilled[event.task_id - 1]
                self.preemptions[event.task_id - 1] = (
                    prefilled.preemptions + event.result.preemptions
                )
                self.engine.apply(Release(prefilled.handle))

    @property
    def held_pages(self):
        """Pages of the pool that sequences hold, each counted once."""
        return self.engine.scheduler.kv_cache.ledger.held_count

    @property
    def pinned_chunks(self):
        """Fetches of stored chunks that were not given back."""
        return self.store.stats().pins

    def kv(self, prompt, reuse=EVERYTHING):
        """Put a prompt in alone; return the KV of its row, as a KvBlock."""
        number = self.start(prompt, reuse, decodes=False)
        self.drain()
        handle = self.prefilled[number].handle
        packed = self.engine.export_sequence(handle).block
        self.engine.apply(Release(handle))
        return KvBlock.unpacked(packed)

    def ask(self, prompt, reuse=EVERYTHING, new_tokens=1, salt=""):
        """Run one request alone; return its first token's logits."""
        number = self.start(prompt, reuse, new_tokens, salt=salt)
        self.drain()
        return self.logits[number][0]
