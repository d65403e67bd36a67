"""What a server is made of: one frozen value, checked where it is made."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.tasks import Optimizations
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.llm.engine import BACKGROUND_STEP_S
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_roles
from heddle.engines.vector.ivf.early_stop.setting import EXACT, SPECULATIVE, target_recall
from heddle.engines.vector.ivf.hot.setting import hot_settings
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.shards.port import LostShard
from heddle.kv.kv_encoding import KvEncoding
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import POLICIES

HOSTS: Final = ("process", "inline")
POOL_POLICIES: Final = tuple(policy.value for policy in PoolPolicy)
CHUNK_KV_BYTES_DEFAULT: Final = 256 << 20
CHUNK_KV_ENCODINGS: Final = (KvEncoding.BF16.value, KvEncoding.INT8.value)
SHARDS_MAX: Final = 64  # each is a process
LOST_SHARD: Final = tuple(what.value for what in LostShard)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server is put together.

    Args:
        generator: a model's directory, installed name or hub name; None = no generation.
        index: a corpus directory made by `heddle index`; None = no retrieval.
        embedder: a Hugging Face encoder directory; None = the packaged MiniLM.
        host: "process" = engines in lanes of their own; "inline" = in this process, whose
            allocator then keeps up to 512 MiB that an LLM on the CPU frees between its steps.
        dtype: auto, float32 or bfloat16, for both models.
        device: auto, cpu or cuda, for the LLM.
        attention: what computes the LLM's: torch, triton on an NVIDIA GPU, or what is compiled on
            this machine for its CPU; auto = the fastest that can.
        heterogeneous: with an accelerator, whether the CPU embeds what it can't take in time.
        long_texts: texts to embed that are longer than the model takes are cut, or read in windows.
        nprobe: clusters a search scans; None = the index's default.
        topm: candidates that a search of a graph keeps, 1 to 1024; None = 64.
        search: how far searches go: "exact" = through every list that they plan; "speculative" =
            likewise, while prompts are computed with what was found by then, which changes no
            answer; or such as "target:0.95" = until so much of the exact hits is found on average;
            that needs optimizations APPROX.
        hot_clusters: which share of the index a GPU holds as well, the lists that are asked for
            most: "20%", "off", or "auto" = 20% where there is a GPU.
        pool: how searches before a prefill and while decoding share the vector lane, one of
            adaptive, prefill_first, decode_first or fifo; None = as they come, side by side.
        pool_slo_s: how long a search before a prefill may take in that pool [s]; None = 50 ms.
        shards: lanes that search a part of the index each, at most 64.
        lost_shard: what becomes of a search while one of them is lost: "degrade" = the others
            answer, and the receipt says so; "fail" = it waits for the lane, or fails.
        llm_lanes: the lanes that run the LLM, by role, such as "prefill,decode,decode": prompts
            are computed on prefill lanes, whose KV moves on to decode lanes; "both" does all.
        max_num_seqs: sequences an LLM lane runs at once.
        max_num_batched_tokens: tokens of one LLM step.
        background_step_s: how long an LLM step for nobody who waits, such as priming, may take [s]:
            a request that comes meanwhile waits for it. A large model primes faster with more.
        context_tokens_max: most tokens of a prompt and its answer; None = the model's own limit,
            or what the KV pages hold if that is less.
        kv_bytes: memory for the KV pages of each LLM lane; None = by the placement plan.
        batching: how admission is ordered, one of `runtime.batching.POLICIES`.
        optimizations: the most that any request may use.
        kv_reuse: how prompts use the KV of retrieved chunks that was computed elsewhere, unless a
            request says otherwise; anything but full attention needs optimizations APPROX.
        chunk_kv_bytes: host memory for that KV; 0 = none is kept.
        chunk_kv_encoding: how it is stored: bf16, or int8, half as large, whose error the receipt
            tells; what is stored already keeps its form.
        chunk_kv_disk_bytes: what the corpus directory may hold of it; 0 = none; None = 1 GiB, or
            what it holds already if that is more.
        reprime: whether chunks of a primed corpus that requests meet without primed KV, such as the
            neighbours of a changed one, are primed in the background.
        disabled_passes: passes to leave out, by name.
        tool_threads: calls of user functions at once.
        limits: bounds of the runtime.
        needs_vectors: refuse a corpus without vectors; indexing says False.

    Raises:
        ConfigError: a value is out of its range; the message names the field.
    """

    generator: str | Path | None = "reader"
    index: str | Path | None = None
    embedder: str | Path | None = None
    host: str = "process"
    dtype: str = "auto"
    device: str = "auto"
    attention: str = "auto"
    heterogeneous: bool = True
    long_texts: LongTexts = LongTexts.CUT
    nprobe: int | None = None
    topm: int | None = None
    search: str = EXACT
    hot_clusters: str = "auto"
    pool: str | None = None
    pool_slo_s: float | None = None
    shards: int = 1
    lost_shard: str = LostShard.FAIL.value
    llm_lanes: str = LaneRole.BOTH.value
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    background_step_s: float = BACKGROUND_STEP_S
    context_tokens_max: int | None = None
    kv_bytes: int | None = None
    batching: str = "topology_aware"
    optimizations: Optimizations = Optimizations.EXACT
    kv_reuse: KvReuse = FULL_ATTENTION
    chunk_kv_bytes: int = CHUNK_KV_BYTES_DEFAULT
    chunk_kv_encoding: str = KvEncoding.BF16.value
    chunk_kv_disk_bytes: int | None = None
    reprime: bool = True
    disabled_passes: frozenset[str] = frozenset()
    tool_threads: int = 8
    limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    needs_vectors: bool = True

    def __post_init__(self) -> None:
        if self.host not in HOSTS:
            raise ConfigError(f"host must be one of {', '.join(HOSTS)}, got {self.host!r}")
        if self.batching not in POLICIES:
            raise ConfigError(
                f"batching must be one of {', '.join(POLICIES)}, got {self.batching!r}"
            )
        if self.pool is not None and self.pool not in POOL_POLICIES:
            raise ConfigError(
                f"pool must be one of {', '.join(POOL_POLICIES)}, or None, got {self.pool!r}"
            )
        hot_settings(self.hot_clusters, has_gpu=True)  # refuses what it doesn't understand
        is_exact = target_recall(self.search) is None
        if not is_exact and self.optimizations is not Optimizations.APPROX:
            raise ConfigError(
                f"search {self.search!r} gives approximate answers: allow them with "
                "optimizations=Optimizations.APPROX"
            )
        if self.search == SPECULATIVE and self.shards > 1:
            raise ConfigError(
                "search 'speculative' is for an index in one piece: no shard knows what the others "
                "have found by now; set shards to 1 or search to exact"
            )
        if self.lost_shard not in LOST_SHARD:
            raise ConfigError(
                f"lost_shard must be one of {', '.join(LOST_SHARD)}, got {self.lost_shard!r}"
            )
        if self.pool_slo_s is not None and self.pool is None:
            raise ConfigError(
                "pool_slo_s (--pool-slo-ms) is for searches in a pool, and there is none: set pool"
                f" (--pool) to one of {', '.join(POOL_POLICIES)}, or leave it out"
            )
        if self.pool_slo_s is not None and not self.pool_slo_s > 0:
            raise ConfigError(f"pool_slo_s must be a positive time, got {self.pool_slo_s}")
        if not self.background_step_s > 0:
            raise ConfigError(
                f"background_step_s must be a positive time, got {self.background_step_s}"
            )
        self._check_llm_lanes()
        if self.generator is None and self.index is None:
            raise ConfigError("a server needs a generator, an index, or both; both are None")
        if self.kv_reuse.is_approximate and self.optimizations is not Optimizations.APPROX:
            raise ConfigError(
                f"kv_reuse {self.kv_reuse.policy.value!r} gives approximate answers: allow them "
                "with optimizations=Optimizations.APPROX"
            )
        if self.chunk_kv_encoding not in CHUNK_KV_ENCODINGS:
            raise ConfigError(
                f"chunk_kv_encoding must be one of {', '.join(CHUNK_KV_ENCODINGS)}, "
                f"got {self.chunk_kv_encoding!r}"
            )
        for name in ("chunk_kv_bytes", "chunk_kv_disk_bytes"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("max_num_seqs", "max_num_batched_tokens", "tool_threads", "shards"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.shards > SHARDS_MAX:
            raise ConfigError(f"shards must be at most {SHARDS_MAX}, got {self.shards}")
        for name in ("context_tokens_max", "kv_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}; None = the default")

    def _check_llm_lanes(self) -> None:
        roles = lane_roles(self.llm_lanes)
        prefill_lanes = sum(role.prefills for role in roles)
        keeps_chunks = self.optimizations is Optimizations.APPROX and self.chunk_kv_bytes > 0
        if prefill_lanes > 1 and keeps_chunks and self.chunk_kv_disk_bytes != 0:
            raise ConfigError(
                f"llm_lanes is {self.llm_lanes!r}: {prefill_lanes} lanes that prefill can't share "
                "one folder of chunk KV: set chunk_kv_disk_bytes (--kv-disk) to 0, or name one"
            )
