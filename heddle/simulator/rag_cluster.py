"""Prompts through prefill, decode and vector search on virtual time, by a cluster's rooflines."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from heddle.core.errors import ConfigError
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import Stage
from heddle.simulator.placement import Cluster, Placement
from heddle.simulator.pool_device import PoolDevice
from heddle.simulator.roofline import extend_s
from heddle.simulator.timeline import Timeline

EXTENDS_SPREAD = 0.25  # of how many extends searches make, as a share of the mean
WARM_UP_SHARE = 0.2  # of a run, after which prompts count
SLO_FACTOR = 3.0  # the pool's deadline for a prefill search, in searches alone


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a cluster: Poisson prompts that search once, then every few tokens.

    `batch_max` bounds a decode node's sequences where its memory would hold more.
    """

    prompts_per_s: float
    duration_s: float = 20.0
    prompt_tokens: int = 1000
    answer_tokens: int = 256
    probe_every: int = 8
    batch_max: int = 256
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load came to: times [s] at their 95th percentile, shares in [0, 1].

    `finished_share` counts the prompts that came in time and were answered to the end; under 1 by
    more than what is always under way, the cluster is overloaded.
    """

    ttft_p95_s: float
    prefill_search_p95_s: float
    decode_search_p95_s: float
    token_s: float
    decode_stall: float
    tokens_per_s: float
    vector_use: float
    prefill_use: float
    finished_share: float


@dataclass(slots=True)
class _Counts:
    ttfts_s: list[float] = field(default_factory=list)
    searches_s: dict[Stage, list[float]] = field(
        default_factory=lambda: {stage: [] for stage in Stage}
    )
    stalled_s: float = 0.0
    decoded_s: float = 0.0
    tokens: int = 0
    came: int = 0
    finished: int = 0


@dataclass(slots=True)
class _PrefillNode:
    """Prompts one after another."""

    queue: deque["_Prompt"] = field(default_factory=deque)
    is_busy: bool = False
    busy_s: float = 0.0


@dataclass(slots=True)
class _DecodeNode:
    """Sequences together, as many as fit; the rest waits."""

    queue: deque["_Prompt"] = field(default_factory=deque)
    active: int = 0


@dataclass(slots=True)
class _Prompt:
    came_s: float
    counts: bool
    node: int
    left: int


class RagCluster:
    """One run of a load over a cluster.

    Args:
        cluster: what there is, and how long things take on it.
        load: what is asked.
        policy: of the vector pool, or of each vector GPU where there is none.

    Raises:
        ConfigError: a decode node's memory doesn't hold one sequence.
    """

    def __init__(
        self, cluster: Cluster, load: Load, policy: PoolPolicy = PoolPolicy.ADAPTIVE
    ) -> None:
        self._cluster, self._load = cluster, load
        self._timeline = Timeline()
        self._arrivals = np.random.default_rng([load.seed, 0])  # the same in every placement
        self._lengths = np.random.default_rng([load.seed, 1])
        self._counts = _Counts()
        self._prefill = [_PrefillNode() for _ in range(cluster.prefill_nodes)]
        self._decode = [_DecodeNode() for _ in range(cluster.decode_nodes)]
        self._extend_s = extend_s(cluster.gpu, cluster.search, cluster.search.slots)
        self._prompt_s = cluster.prompt_s(load.prompt_tokens)
        self._batch_max = _batch_max(cluster, load)
        self._kv_bytes = 0.0
        self._kv_since_s = 0.0
        self._devices = self._placed(policy)

    def run(self) -> Outcome:
        """Run to the end of the load."""
        self._arrive()
        while self._timeline.now_s() < self._load.duration_s:
            self._timeline.step()
        counts, duration_s = self._counts, self._load.duration_s
        devices = {id(device): device for device in self._devices.values()}.values()
        slots = sum(device.scheduler.slots for device in devices)
        return Outcome(
            ttft_p95_s=_p95(counts.ttfts_s),
            prefill_search_p95_s=_p95(counts.searches_s[Stage.PREFILL]),
            decode_search_p95_s=_p95(counts.searches_s[Stage.DECODE]),
            token_s=(counts.decoded_s + counts.stalled_s) / max(counts.tokens, 1),
            decode_stall=counts.stalled_s / max(counts.decoded_s + counts.stalled_s, 1e-12),
            tokens_per_s=counts.tokens / duration_s,
            vector_use=sum(device.busy_s for device in devices) / (slots * duration_s),
            prefill_use=sum(n.busy_s for n in self._prefill) / (len(self._prefill) * duration_s),
            finished_share=counts.finished / max(counts.came, 1),
        )

    def _placed(self, policy: PoolPolicy) -> dict[tuple[Stage, int], PoolDevice]:
        """Return the vector device that each node of each stage asks."""
        cluster = self._cluster
        prefill = [(Stage.PREFILL, i) for i in range(cluster.prefill_nodes)]
        decode = [(Stage.DECODE, i) for i in range(cluster.decode_nodes)]
        match cluster.placement:
            case Placement.COUPLED:
                return {node: self._device(policy, 1) for node in (*prefill, *decode)}
            case Placement.WITH_PREFILL:
                pool = self._device(policy, cluster.pool_gpus)
                own = {node: self._device(policy, 1) for node in prefill}
                return own | dict.fromkeys(decode, pool)
            case Placement.POOL:
                return dict.fromkeys((*prefill, *decode), self._device(policy, cluster.pool_gpus))

    def _device(self, policy: PoolPolicy, gpus: int) -> PoolDevice:
        alone_s = self._cluster.search.extends * self._extend_s
        return PoolDevice(
            self._timeline,
            gpus * self._cluster.search.slots,
            policy,
            prefill_slo_s=SLO_FACTOR * alone_s,
            alone_s=alone_s,
            kv_link_use=self._kv_link_use,
        )

    def _kv_link_use(self) -> float:
        """Return how busy the prefill nodes' links to decode were since the last look."""
        now_s = self._timeline.now_s()
        room = self._cluster.links.network_bytes_per_s * self._cluster.prefill_nodes
        use = self._kv_bytes / (room * max(now_s - self._kv_since_s, 1e-9))
        self._kv_bytes, self._kv_since_s = 0.0, now_s
        return min(use, 1.0)

    # The way of a prompt ----------------------------------------------------------------------

    def _arrive(self) -> None:
        now_s, load = self._timeline.now_s(), self._load
        number = int(self._arrivals.integers(len(self._prefill) * len(self._decode)))
        counts = now_s >= WARM_UP_SHARE * load.duration_s
        prompt = _Prompt(now_s, counts, number // len(self._prefill), load.answer_tokens)
        self._counts.came += counts
        node = number % len(self._prefill)
        self._search(Stage.PREFILL, node, lambda took_s: self._queue_prefill(prompt, node))
        self._timeline.after(
            float(self._arrivals.exponential(1.0 / load.prompts_per_s)), self._arrive
        )

    def _search(self, stage: Stage, node: int, then: Callable[[float], None]) -> None:
        """Send a search off; `then` hears how long it took with its way there and back."""
        mean = self._cluster.search.extends
        extends = max(1.0, float(self._lengths.normal(mean, EXTENDS_SPREAD * mean)))
        trip_s = self._cluster.search_trip_s(for_prefill=stage is Stage.PREFILL)

        def ended(waited_s: float, took_s: float) -> None:
            self._counts.searches_s[stage].append(took_s + trip_s)
            self._timeline.after(trip_s / 2, lambda: then(took_s + trip_s))

        device, service_s = self._devices[stage, node], extends * self._extend_s
        self._timeline.after(trip_s / 2, lambda: device.search(stage, service_s, ended))

    def _queue_prefill(self, prompt: _Prompt, number: int) -> None:
        node = self._prefill[number]
        node.queue.append(prompt)
        if not node.is_busy:
            self._next_prompt(node)

    def _next_prompt(self, node: _PrefillNode) -> None:
        node.is_busy = bool(node.queue)
        if node.queue:
            prompt = node.queue.popleft()
            self._timeline.after(self._prompt_s, lambda: self._prefilled(node, prompt))

    def _prefilled(self, node: _PrefillNode, prompt: _Prompt) -> None:
        node.busy_s += self._prompt_s
        if prompt.counts:
            self._counts.ttfts_s.append(self._timeline.now_s() - prompt.came_s)
        size = self._load.prompt_tokens * self._cluster.llm.kv_bytes
        self._kv_bytes += size
        transfer_s = self._cluster.links.transfer_s(size, in_node=False)
        self._timeline.after(transfer_s, lambda: self._queue_decode(prompt))
        self._next_prompt(node)

    def _queue_decode(self, prompt: _Prompt) -> None:
        node = self._decode[prompt.node]
        if node.active == self._batch_max:
            node.queue.append(prompt)
            return
        node.active += 1
        self._decode_on(prompt)

    def _decode_on(self, prompt: _Prompt) -> None:
        """Decode up to the next search, or to the end."""
        tokens = min(prompt.left, self._load.probe_every)
        node = self._decode[prompt.node]
        seconds = tokens * self._cluster.step_s(node.active, self._load.prompt_tokens)
        self._timeline.after(seconds, lambda: self._decoded(prompt, tokens, seconds))

    def _decoded(self, prompt: _Prompt, tokens: int, seconds: float) -> None:
        prompt.left -= tokens
        self._counts.tokens += tokens
        self._counts.decoded_s += seconds
        if prompt.left:
            self._search(
                Stage.DECODE, prompt.node, lambda took_s: self._probed(prompt, took_s, seconds)
            )
            return
        self._counts.finished += prompt.counts
        node = self._decode[prompt.node]
        node.active -= 1
        if node.queue:
            self._queue_decode(node.queue.popleft())

    def _probed(self, prompt: _Prompt, took_s: float, decoded_s: float) -> None:
        self._counts.stalled_s += took_s
        self._devices[Stage.DECODE, prompt.node].meters.decoded(took_s, decoded_s)
        self._decode_on(prompt)


def _batch_max(cluster: Cluster, load: Load) -> int:
    context = load.prompt_tokens + load.answer_tokens
    held = cluster.batch_max(context)
    if not held:
        raise ConfigError(f"a decode node's memory doesn't hold one sequence of {context} tokens")
    return min(load.batch_max, held)


def answer_s(cluster: Cluster, load: Load) -> float:
    """Return how long a prompt is under way if nothing waits: prefill, decode and searches [s].

    A decode node has the batch at which it writes what the load asks of it, or its largest.

    Raises:
        ConfigError: a decode node's memory doesn't hold one sequence.
    """
    tokens_per_s = load.prompts_per_s * load.answer_tokens / cluster.decode_nodes
    search_s = cluster.search.extends * extend_s(cluster.gpu, cluster.search, cluster.search.slots)
    for batch in range(1, _batch_max(cluster, load) + 1):
        token_s = cluster.step_s(batch, load.prompt_tokens) + search_s / load.probe_every
        if batch >= 1 + tokens_per_s * token_s:  # itself, and whom a Poisson arrival meets
            break
    return search_s + cluster.prompt_s(load.prompt_tokens) + load.answer_tokens * token_s


def _p95(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[ceil(0.95 * len(ordered)) - 1] if ordered else float("inf")
