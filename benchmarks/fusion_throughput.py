"""Requests a second that are answered in time: prefix cache, CacheBlend, FusionRAG, disk tier.

In time: all requests but one in ten, rounded up, have their first token within three times what
full attention takes for it with no other request (the median of five). The largest such rate is
searched five times, each time with other arrivals; in each the contenders take turns, with the same
prompts at the same moments. Figures are medians of the five, ratios are taken within each, and
their range is shown. Requests come for the same number of seconds at every rate. A run ends as soon
as no later request could change whether it is in time; its other figures are of the requests
answered until then. Each has a new engine, whose prefix cache holds what prompts share before their
passages. Times are real ones, from the moment a request was to come; weights are random, for this
is about time. Answers have 16 tokens. fp32 on the CPU.

poisson, ragpulse: the KV of all chunks lies in host memory, stored beforehand (as `heddle index
--prime` does; primed KV takes as long as this raw one); 15 % of their tokens are computed anew.
* prefix_cache: only what stands behind the very same tokens is reused;
* cacheblend;
* fusionrag: as it ships, the question alone selects;
* fusionrag_with_context: as published, the question reads the stored KV to select.
Poisson's prompts have 8 of 128 chunks of 192 tokens, drawn by Zipf's law (exponent 0.75, that of
RAGPulse's passages). RAGPulse's come from the trace, window by window: random tokens, lengths
halved, its passages are the chunks; `compressed` says how many times faster than in the trace they
come. `tokens_computed` is the mean of what requests put through the model, selecting included: its
ratio is what a contender could gain at best.

disk: a model whose KV has the shape of a 7B's (28 layers, 4 heads of 128: 57 kB a token in
bfloat16, really written and read) while the rest of it is narrow: 512, so that a chunk takes about
twice as long to prefill as to load, and there is something to load (a 7B's takes longer). Prompts
of 4 of 48 chunks of 128 tokens, else as Poisson's. Host memory holds a third of them and is empty
at the start, the page cache is dropped, the disk tier is held to 100 MB/s.
* async: loads run beside the engine's steps, behind other prompts they cost nothing;
* blocking: the engine takes no step until all loads that it has started have ended.
Both prefill what they predict to be sooner there so.

Cut, to end within 15 minutes on two cores: the model is 8 layers of 256; requests come for 9 times
as long as full attention takes for a prompt, so some 10 to the slowest contender; a rate is found
to 15 %; chunks are short, on disk most of all; ragpulse has no contender with context.

Headline: fusionrag over prefix_cache with Poisson arrivals and with RAGPulse's, async over
blocking.
"""

import itertools
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from transformers import LlamaForCausalLM

from benchmarks.support.data import rows as data_rows
from benchmarks.support.engine_driver import EngineDriver, Prompt
from benchmarks.support.likely_rate import likely_rate
from benchmarks.support.open_loop import Arrival, Served, serve
from benchmarks.support.random_llama import Shape, random_llama, random_tokens
from benchmarks.support.random_prompts import zipf_prompts
from benchmarks.support.rate_search import RateSearch
from benchmarks.support.stored_chunks import (
    HOST_BYTES,
    ChunksOnDisk,
    engine_over,
    open_store,
    store_chunks,
)
from heddle.core.errors import InputError, InternalError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse, QuestionPass, ReusePolicy
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.tasks import Optimizations
from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings

BOUND: Final = 3.0
UNCONTENDED: Final = 5  # prompts whose median the bound is made of
RATIO: Final = 0.15
ANSWER_TOKENS: Final = 16
SHARED_MIN: Final = 3  # prompts that begin alike: their beginning is in any warm prefix cache
CONTEXT_TOKENS_MAX: Final = 4096
REPETITIONS: Final = 5
POISSON_ARRIVALS: Final = 256
TRACE: Final = "trace_ragpulse"
TRACE_PARTS: Final = ("system", "passages", "history", "web", "user")
DISK_BYTES_PER_S: Final = 100e6
DISK_CHUNKS: Final = 4
KV_OF_7B: Final = Shape("7B's KV", 28, 512, 4, 512, kv_heads=4, head_dim=128)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run; the bars are decided by the full size.

    A run lasts `stretches` times what full attention takes for a prompt. A rate is found when
    the smallest that misses the bound is at most `precision` times the largest that meets it.
    `window`: requests of the trace in each repetition.
    """

    shape: Shape
    chunks: int
    pool: int
    chunk_tokens: int
    window: int
    disk_pool: int
    disk_chunk_tokens: int
    stretches: float
    precision: float
    repetitions: int
    kv_bytes: int


FULL: Final = Sizes(
    Shape("8x256", 8, 256, 4, 688), 8, 128, 192, 40, 48, 128, 9.0, 1.15, REPETITIONS, 1 << 30
)
QUICK: Final = Sizes(Shape("reader", 6, 256, 8, 256), 4, 12, 128, 20, 10, 32, 8.0, 2.0, 1, 1 << 28)


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to serve."""

    name: str
    reuse: KvReuse
    mode: Optimizations = Optimizations.APPROX


ALONE: Final = Contender("full attention", FULL_ATTENTION, Optimizations.OFF)
PREFIX_CACHE: Final = Contender("prefix_cache", FULL_ATTENTION, Optimizations.EXACT)
CACHEBLEND: Final = Contender("cacheblend", KvReuse(ReusePolicy.CACHEBLEND, RATIO, always=True))
FUSIONRAG: Final = Contender("fusionrag", KvReuse(ReusePolicy.FUSIONRAG, RATIO, always=True))
WITH_CONTEXT: Final = Contender(
    "fusionrag_with_context", replace(FUSIONRAG.reuse, question=QuestionPass.WITH_CONTEXT)
)
POISSON_CONTENDERS: Final = (PREFIX_CACHE, CACHEBLEND, FUSIONRAG, WITH_CONTEXT)
RAGPULSE_CONTENDERS: Final = (PREFIX_CACHE, CACHEBLEND, FUSIONRAG)
ASYNC: Final = Contender("async", FUSIONRAG.reuse)
BLOCKING: Final = Contender("blocking", FUSIONRAG.reuse)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What comes in one repetition, by the rate of one a second.

    `recorded_rate` is how many a second came when they were recorded; None: they never were.
    """

    requests: Sequence[Arrival]
    recorded_rate: float | None = None

    @classmethod
    def recorded(cls, requests: Sequence[dict[str, Any]], seed: int) -> Self:
        """Return requests of the trace as they came, the first one at once.

        Raises: InputError: all of them came in the same second.
        """
        began, seconds = requests[0]["t"], requests[-1]["t"] - requests[0]["t"]
        if seconds <= 0:
            raise InputError(
                f"{TRACE}: the field t of {len(requests)} requests one after another is {began}; "
                "a rate needs times that differ"
            )
        rate = (len(requests) - 1) / seconds
        coming = [Arrival((one["t"] - began) * rate, _prompt(one, seed)) for one in requests]
        return cls(coming, rate)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate that a contender is in time with [1/s], and how its run went."""

    per_s: float
    served: Served


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A model and its prompts; `store_for` gives each run of a contender its chunk KV.

    `store_for` needs the time of full attention for a prompt [s].
    """

    name: str
    model: LlamaForCausalLM
    repetitions: Sequence[Arrivals]
    contenders: tuple[Contender, ...]
    store_for: Callable[[Contender, float], AbstractContextManager[ChunkStore]]

    @property
    def beginnings(self) -> list[Prompt]:
        """What several prompts begin with before their passages, the longest of it.

        Engines have computed it before a run.
        """
        counts: Counter[Prompt] = Counter()
        for arrival in itertools.chain.from_iterable(one.requests for one in self.repetitions):
            own = tuple(
                itertools.takewhile(lambda part: part.role is not SegmentRole.CHUNK, arrival.prompt)
            )
            counts.update(own[:stop] for stop in range(1, len(own) + 1))
        shared = [beginning for beginning, count in counts.items() if count >= SHARED_MIN]
        continued = {beginning[:-1] for beginning in shared}
        return [beginning for beginning in shared if beginning not in continued]

    def row(
        self, contender: Contender, found: Sequence[Mapping[Contender, Rate]], full_s: float
    ) -> dict[str, object]:
        """Return what was found of a contender; `x_first` is over the first one."""
        rates = [one[contender].per_s for one in found]
        gains = [one[contender].per_s / one[self.contenders[0]].per_s for one in found]
        served = [one[contender].served for one in found]
        row: dict[str, object] = {
            "case": self.name,
            "contender": contender.name,
            "requests_per_s": statistics.median(rates),
            "requests_per_s_range": [min(rates), max(rates)],
            "x_first": statistics.median(gains),
            "x_first_range": [min(gains), max(gains)],
            "requests": sum(one.requests for one in served),
            "tokens_computed": statistics.mean(one.tokens_computed for one in served),
            "first_token_median_s": statistics.median(one.median_s for one in served),
            "bound_s": BOUND * full_s,
        }
        recorded = [one.recorded_rate for one in self.repetitions if one.recorded_rate is not None]
        if recorded:
            compressed = [rate / before for rate, before in zip(rates, recorded, strict=True)]
            row["compressed"] = statistics.median(compressed)
        return row


def run(quick: bool, seed: int) -> dict[str, object]:
    """Find every contender's rate in every case; the headline is what the bars are about."""
    sizes = QUICK if quick else FULL
    rows = [row for case in _cases(sizes, seed) for row in _measure(case, sizes)]
    gains = {(row["case"], row["contender"]): float(str(row["x_first"])) for row in rows}
    headline = {
        "x_prefix_cache": gains["poisson", "fusionrag"],
        "x_prefix_cache_ragpulse": gains.get(("ragpulse", "fusionrag")),
        "x_async": 1 / gains["disk", "blocking"],
    }
    return {
        "settings": {
            **asdict(sizes),
            "bound": BOUND,
            "ratio": RATIO,
            "answer_tokens": ANSWER_TOKENS,
            "disk_shape": asdict(KV_OF_7B),
            "disk_bytes_per_s": DISK_BYTES_PER_S,
            "threads": torch.get_num_threads(),
        },
        "rows": rows,
        "headline": {name: value for name, value in headline.items() if value is not None},
    }


def _cases(sizes: Sizes, seed: int) -> Iterator[Case]:
    """Yield one case after another; a case's stored KV is removed before the next is made."""
    model = random_llama(sizes.shape, seed, CONTEXT_TOKENS_MAX)
    poisson = [
        _poisson(
            zipf_prompts(sizes.pool, sizes.chunk_tokens, sizes.chunks, seed, number), seed, number
        )
        for number in range(sizes.repetitions)
    ]
    yield from _in_memory("poisson", model, sizes, poisson, POISSON_CONTENDERS)
    try:
        trace = _ragpulse(sizes.repetitions, sizes.window, seed)
    except InputError as error:
        print(f"ragpulse is left out: {error}", flush=True)
    else:
        yield from _in_memory("ragpulse", model, sizes, trace, RAGPULSE_CONTENDERS)
    on_disk = [
        _poisson(
            zipf_prompts(sizes.disk_pool, sizes.disk_chunk_tokens, DISK_CHUNKS, seed, number),
            seed,
            number,
        )
        for number in range(sizes.repetitions)
    ]
    yield from _on_disk(sizes, on_disk, seed)


def _in_memory(
    name: str,
    model: LlamaForCausalLM,
    sizes: Sizes,
    repetitions: Sequence[Arrivals],
    contenders: tuple[Contender, ...],
) -> Iterator[Case]:
    """Yield the case of these arrivals, all of their chunks in host memory."""
    with closing(open_store(ChunkStoreSettings(HOST_BYTES))) as store:
        store_chunks(model, store, _prompts(repetitions), sizes.kv_bytes)
        # All runs take the same store: all chunks are in it, so they change nothing.
        yield Case(name, model, repetitions, contenders, lambda *_: nullcontext(store))


def _on_disk(sizes: Sizes, repetitions: Sequence[Arrivals], seed: int) -> Iterator[Case]:
    """Yield the case of these arrivals, their chunks on disk; a third of them fits in memory."""
    chunk_bytes = sizes.disk_chunk_tokens * KV_OF_7B.stored_token_bytes
    pool_bytes = sizes.disk_pool * chunk_bytes
    # Runs write what they have prefilled; none may take the place of what the next ones load.
    written_bytes_max = POISSON_ARRIVALS * DISK_CHUNKS * chunk_bytes
    prompt_tokens = sum(len(part.token_ids or ()) for part in repetitions[0].requests[0].prompt)
    model = random_llama(KV_OF_7B, seed, CONTEXT_TOKENS_MAX)
    with tempfile.TemporaryDirectory() as name:
        settings = ChunkStoreSettings(
            pool_bytes // 3,
            Path(name),
            2 * (pool_bytes + written_bytes_max),
            load_bytes_per_s=DISK_BYTES_PER_S,
        )
        stored = ChunksOnDisk.of(model, _prompts(repetitions), settings, sizes.kv_bytes)

        def cold(contender: Contender, full_s: float) -> AbstractContextManager[ChunkStore]:
            saved_token_s = (1 - RATIO) * full_s / prompt_tokens
            return stored.cold(saved_token_s if contender is BLOCKING else None)

        yield Case("disk", model, repetitions, (ASYNC, BLOCKING), cold)


def _measure(case: Case, sizes: Sizes) -> list[dict[str, object]]:
    """Search every contender's rate, in turns, again and again; return a row for each."""
    full_s = _alone_s(case, ALONE, math.inf, sizes)
    print(f"{case.name}: full attention takes {full_s:.3g} s for a prompt", flush=True)
    service_s = {c: _alone_s(case, c, full_s, sizes) for c in case.contenders}
    found: list[dict[Contender, Rate]] = []
    for arrivals in case.repetitions:
        starts = {c: _start(case, c, found, service_s[c], full_s, sizes) for c in case.contenders}
        searches = {c: RateSearch(start, sizes.precision) for c, start in starts.items()}
        found.append(_search(case, arrivals, searches, full_s, sizes))
        rates = ", ".join(f"{c.name} {rate.per_s:.3g}" for c, rate in found[-1].items())
        print(f"{case.name}, {len(found)} of {len(case.repetitions)}: {rates} a second", flush=True)
    rows = [case.row(contender, found, full_s) for contender in case.contenders]
    for row in rows:
        print("  ".join(f"{name} {_shown(value)}" for name, value in row.items()), flush=True)
    return rows


def _alone_s(case: Case, contender: Contender, full_s: float, sizes: Sizes) -> float:
    """Return the median seconds to the first tokens of prompts that come one after another."""
    asked = case.repetitions[0].requests[:UNCONTENDED]
    with case.store_for(contender, full_s) as store:
        driver = EngineDriver(engine_over(case.model, store, sizes.kv_bytes))
        return statistics.median(
            driver.first_token_s(arrival.prompt, contender.reuse, contender.mode)
            for arrival in asked
        )


def _start(
    case: Case,
    contender: Contender,
    found: Sequence[Mapping[Contender, Rate]],
    service_s: float,
    full_s: float,
    sizes: Sizes,
) -> float:
    """Return where to begin the next repetition's search: what a queue would take of its arrivals.

    By how much the earlier repetitions exceeded that, this one may, too.
    """
    likely = [
        likely_rate(arrivals.requests, service_s, BOUND * full_s, sizes.stretches * full_s)
        for arrivals in case.repetitions[: len(found) + 1]
    ]
    # The limit lies between the rate that was found and the next one.
    centre = math.sqrt(sizes.precision)
    exceeded = [
        centre * one[contender].per_s / rate for one, rate in zip(found, likely, strict=False)
    ]
    return likely[-1] * (statistics.median(exceeded) if exceeded else 1.0)


def _search(
    case: Case,
    arrivals: Arrivals,
    searches: Mapping[Contender, RateSearch],
    full_s: float,
    sizes: Sizes,
) -> dict[Contender, Rate]:
    """Find the rates at which these arrivals are in time, the contenders in turns."""
    met: dict[Contender, Rate] = {}
    while any(not search.is_done for search in searches.values()):
        for contender, search in searches.items():
            if search.is_done:
                continue
            served = _serve(case, contender, arrivals.requests, search.rate, full_s, sizes)
            if served.meets_bound:
                met[contender] = Rate(search.rate, served)
            search.take(meets=served.meets_bound)
    for contender in searches:
        if contender not in met:
            raise InternalError(f"{case.name}: {contender.name} is in time at no rate")
    return met


def _serve(
    case: Case,
    contender: Contender,
    requests: Sequence[Arrival],
    rate: float,
    full_s: float,
    sizes: Sizes,
) -> Served:
    """Serve requests at a rate, with a new engine; alone, full attention takes `full_s`."""
    seconds, bound_s = sizes.stretches * full_s, BOUND * full_s
    coming = [arrival for arrival in requests if arrival.at <= rate * seconds]
    with case.store_for(contender, full_s) as store:
        driver = EngineDriver(engine_over(case.model, store, sizes.kv_bytes))
        for beginning in case.beginnings:
            driver.first_token_s(beginning, mode=Optimizations.EXACT)
        served = serve(
            driver, coming, rate, bound_s, contender.reuse, contender.mode, ANSWER_TOKENS
        )
    said = "in time" if served.meets_bound else "late"
    print(f"{case.name}, {contender.name}: {rate:.3g} a second: {said}", flush=True)
    return served


def _prompts(repetitions: Sequence[Arrivals]) -> list[Prompt]:
    return [arrival.prompt for arrivals in repetitions for arrival in arrivals.requests]


def _poisson(prompts: Iterator[Prompt], *seed: int) -> Arrivals:
    gaps = np.random.default_rng((*seed, 5)).exponential(1.0, POISSON_ARRIVALS)
    return Arrivals([Arrival(at, next(prompts)) for at in np.cumsum(gaps).tolist()])


def _ragpulse(repetitions: int, window: int, seed: int) -> list[Arrivals]:
    """Return the first requests of the trace, a window for each repetition.

    Raises: InputError: the trace is not in the data folder, or has no times.
    """
    requests = list(itertools.islice(data_rows(TRACE), repetitions * window))
    return [
        Arrivals.recorded(requests[i * window : (i + 1) * window], seed) for i in range(repetitions)
    ]


def _prompt(request: dict[str, Any], seed: int) -> Prompt:
    """Return a request of the trace: equal content ids have equal tokens."""
    return tuple(
        Segment(
            random_tokens(-(-tokens // 2), seed, 6, content),
            SegmentRole.CHUNK if part == "passages" else SegmentRole.TEXT,
        )
        for part in TRACE_PARTS
        for content, tokens in request[part]
    )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " to ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
