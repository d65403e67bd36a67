"""A worker whose KV is the tokens themselves, so that every wrong slot shows in the next token."""

import zlib

import numpy as np

from heddle.core.commands import Admit, Release
from heddle.core.frames import Cancelled, Done, Failed, Frame, Progress
from heddle.core.payloads import (
    NO_PAUSE,
    DecodePayload,
    PrefillPayload,
    Sampling,
    Segment,
    TransferPayload,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Optimizations, Priority, Task
from heddle.engines.llm.engine import LlmEngine, LlmSpec
from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.engines.llm.step_batch import StepResult
from heddle.engines.llm.step_sizes import BACKGROUND_STEP_S
from heddle.hosts.live_tasks import LiveTasks

VOCABULARY = 50
EOS = 1
INF = float("inf")


def next_token(token_ids, uniform=0.0):
    """Return the token that the fake model says after these: never one of the first three."""
    text = ",".join(map(str, token_ids)) + f"|{uniform:.9f}"
    return 3 + zlib.crc32(text.encode()) % (VOCABULARY - 3)


def greedy(prompt, count):
    """Return the fake model's greedy continuation."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(next_token(ids))
    return tuple(ids[len(prompt) :])


def allowed(token, mask):
    """Return the token, or the first one behind it that a mask allows."""
    if mask is None:
        return token
    flags = np.unpackbits(mask.bits().view(np.uint8), bitorder="little")
    found = np.flatnonzero(flags)
    return int(found[np.searchsorted(found, token) % len(found)]) if len(found) else token


class FakeWorker:
    """Stores (token, position) in each slot and reads a row's context back through its runs."""

    def __init__(self, slots):
        self.tokens = np.full(slots, -1, dtype=np.int64)
        self.positions = np.full(slots, -1, dtype=np.int64)
        self.batches = []
        self.error = None
        self.next_ids = {}  # prompt -> token, instead of the hash
        self.unsure = {}  # prompt -> probability of the token after it, instead of 1
        self.bad_token = None  # who sees this one gets numbers that are not finite
        self.now = 0.0

    def now_s(self):
        return self.now

    def run(self, batch):
        self.now += 0.001 * batch.tokens
        self.batches.append(batch)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.tokens[batch.slots] = batch.token_ids
        self.positions[batch.slots] = batch.positions
        drawn = []
        probabilities = []
        broken = set()
        for index, row in enumerate(batch.rows):
            slots = np.concatenate([np.arange(r.start, r.start + r.length) for r in row.runs])
            assert self.positions[slots].tolist() == list(range(row.context)), "a wrong slot"
            assert not row.shared
            ids = tuple(self.tokens[slots].tolist())
            if self.bad_token in ids:
                broken.add(index)
            for seen, draw in enumerate(row.draws, row.context - len(row.draft_draws)):
                known = ids[:seen]
                wanted = self.next_ids.get(known, next_token(known, draw.uniform))
                drawn.append(allowed(wanted, draw.mask))
                if draw.wants_probability:
                    probabilities.append(self.unsure.get(known, 1.0))
        return StepResult(tuple(drawn), frozenset(broken), probabilities=tuple(probabilities))

    def pack_kv(self, slots, rotations=None):
        return self.tokens[slots].copy(), self.positions[slots].copy()

    def load_kv(self, slots, block):
        self.tokens[slots], self.positions[slots] = block


class FakeStream:
    """Writes token 7 as `<7>` and ends at a stop string of that form."""

    def __init__(self, stop):
        self.stop = stop

    def push(self, token_ids):
        text = ""
        for token in token_ids:
            if f"<{token}>" in self.stop:
                return text, True
            text += f"<{token}>"
        return text, False

    def finish(self):
        return "."


class FakeDecoder:
    """Makes fake streams."""

    def stream(self, stop):
        return FakeStream(stop)


class Lane:
    """An engine on a fake worker, with its events sorted by task."""

    def __init__(self, pages=64, page_size=4, seqs=4, tokens=16, context=None, name="llm", **more):
        limits = SchedulerLimits(seqs, tokens, page_size, pages, context or pages * page_size)
        spec = LlmSpec(
            limits,
            frozenset({EOS}),
            more.pop("fingerprint", "fake"),
            page_bytes=100,
            prior_s=more.pop(
                "prior_s",
                {
                    "call": 1e-3,
                    "decode_tokens": 1e-3,
                    "prefill_tokens": 1e-3,
                    "context_tokens": 1e-9,
                },
            ),
            background_step_s=more.pop("background_step_s", BACKGROUND_STEP_S),
        )
        self.worker = FakeWorker(pages * page_size)
        decoder = more.pop("decoder", FakeDecoder())
        epoch = more.pop("epoch", 3)
        self.engine = LlmEngine(name, epoch, self.worker, spec, decoder, self.worker, **more)
        self.events = {}
        self.frames = []

    def prefill(
        self,
        task_id,
        *segments,
        tenant="",
        priority=Priority.NORMAL,
        reuse=True,
        has_rider=False,
    ):
        parts = tuple(Segment(None if s is None else tuple(s)) for s in segments)
        level = Optimizations.EXACT if reuse else Optimizations.OFF
        identity = Identity(task_id, "node", priority=priority)
        payload = PrefillPayload(parts, cache_salt=tenant, has_rider=has_rider)
        kind = PrimitiveKind.PREFILLING
        self.engine.apply(Admit(Task(task_id, kind, identity, payload, optimizations=level)))

    def speculate(self, task_id, prompt, tenant="", priority=Priority.NORMAL):
        payload = PrefillPayload((Segment(tuple(prompt)),), tenant, is_speculative=True, rows=0)
        identity = Identity(task_id, "node", priority=priority)
        self.engine.apply(Admit(Task(task_id, PrimitiveKind.PREFILLING, identity, payload)))

    def decode(
        self,
        task_id,
        prefill,
        max_tokens=8,
        report_every=1,
        *,
        pause=NO_PAUSE,
        continues=0,
        resumes=0,
        prompt=None,
        draft=(),
        priority=Priority.NORMAL,
        **sampling,
    ):
        how = Sampling(max_tokens=max_tokens, **sampling)
        payload = DecodePayload(prefill, how, pause, continues, resumes, prompt, tuple(draft))
        who = Identity(task_id, "node", priority=priority)
        task = Task(task_id, PrimitiveKind.DECODING, who, payload)
        self.engine.apply(Admit(task, report_every))

    def transfer(self, task_id, prefill):
        payload = TransferPayload(prefill)
        task = Task(task_id, PrimitiveKind.DECODING, Identity(task_id, "node"), payload)
        self.engine.apply(Admit(task))

    def step(self, budget_s=INF):
        frame = self.engine.step(0.0, budget_s)
        self.frames.append(frame)
        for event in frame.events:
            self.events.setdefault(event.task_id, []).append(event)
        self.engine.check()
        return frame

    def drain(self, steps=2000):
        for _ in range(steps):
            if not self.engine.has_work:
                return
            self.step()
        raise AssertionError("the engine never came to rest")

    def end(self, task_id):
        """Return a task's one terminal event."""
        events = self.events.get(task_id, [])
        ends = [e for e in events if isinstance(e, Done | Failed | Cancelled)]
        assert len(ends) == 1, f"task {task_id} ended {len(ends)} times"
        assert events[-1] is ends[0], "something came after the end"
        return ends[0]

    def result(self, task_id):
        end = self.end(task_id)
        assert isinstance(end, Done), end
        return end.result

    def progress(self, task_id):
        return [e for e in self.events.get(task_id, []) if isinstance(e, Progress)]


class LanePort:
    """An engine on a fake worker as a process host shows it; the test steps and kills it."""

    def __init__(self, name, **sizes):
        self.name, self.sizes = name, sizes
        self.epoch, self.is_up = 1, True
        self.commands = []
        self._arrived = []
        self.start()

    def start(self):
        self.lane = Lane(name=self.name, epoch=self.epoch, **self.sizes)
        self.live = LiveTasks()

    def subscribe(self, wake):
        pass

    def send(self, command):
        if isinstance(command, Release) and command.handle.epoch != self.epoch:
            return
        if self.live.sent(command):
            self.commands.append(command)
            self.lane.engine.apply(command)

    def frames(self):
        arrived, self._arrived = self._arrived, []
        return arrived

    def step(self):
        if self.lane.engine.has_work:
            frame = self.lane.step()
            self.live.answered(frame.events)
            self._arrived.append(frame)

    def lose(self):
        failed = self.live.fail_all("lane lost: it died")
        self._arrived.append(Frame(self.name, self.epoch, 0.0, failed))
        self.epoch += 1
        self.start()

    @property
    def held_pages(self):
        return self.lane.engine.scheduler.kv_cache.ledger.held_count

    def sent(self, payload):
        return [
            c.task.task_id
            for c in self.commands
            if isinstance(c, Admit) and isinstance(c.task.payload, payload)
        ]
