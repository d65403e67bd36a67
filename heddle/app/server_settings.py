"""The keywords of `Server`, as type checkers and editors read them. (PEP 692)

A test compares them with the fields of ServerConfig. Where a field has an enum or a KvReuse, its
text is taken as well.
"""

from pathlib import Path
from typing import Literal, TypedDict

from heddle.app.server_config import (
    Admission,
    AnswerCaching,
    AttentionName,
    Batching,
    Device,
    Dtype,
    EngineHost,
    KvReuseEncoding,
    OnLaneFailure,
    OnPassFailure,
    Rerank,
    SearchIn,
    Speculate,
    Weights,
)
from heddle.core.kv_reuse import KvReuse
from heddle.core.tasks import Optimizations
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.shards.port import LostShard

LongTextsWord = Literal["cut", "window"]
LostShardWord = Literal["degrade", "fail"]
OptimizationsWord = Literal["off", "exact", "approx"]
PoolPolicyWord = Literal["adaptive", "prefill_first", "decode_first", "fifo"]


class ServerSettings(TypedDict, total=False):
    """The fields of ServerConfig but `generator` and `index`."""

    embedder: str | Path | None
    reranker: str | Path | None
    rerank: Rerank
    engine_host: EngineHost
    dtype: Dtype
    device: Device
    attention: AttentionName
    weights: Weights
    embedding_lanes: str
    embedding_admission: Admission
    embedding_slo_s: float | None
    embedding_depths: str | Path | None
    long_texts: LongTexts | LongTextsWord
    nprobe: int | None
    topm: int | None
    recall: float | None
    speculate: Speculate
    hot_clusters: str
    graph_device: Device
    search_pool: PoolPolicy | PoolPolicyWord | None
    search_pool_slo_s: float | None
    search_pool_flush_s: float
    stale_max_s: float
    search_in: SearchIn
    shards: int
    lost_shard: LostShard | LostShardWord
    llm_lanes: str
    replicas: str
    agents: str | None
    ray: str | None
    cluster_secret_file: str | Path | None
    on_lane_failure: OnLaneFailure
    max_num_seqs: int
    max_num_batched_tokens: int | None
    background_step_s: float
    context_tokens_max: int | None
    max_tokens: int | None
    temperature: float | None
    system: str | None
    prompt_file: str | Path | None
    kv_cache_bytes: int | None
    memory_profile: str | Path | None
    expected_rate: float | None
    stage_mix: str | None
    batching: Batching
    ageing: float
    lend_cores: bool
    optimizations: Optimizations | OptimizationsWord | None
    kv_reuse: KvReuse | str
    kv_reuse_memory_bytes: int
    kv_reuse_encoding: KvReuseEncoding
    kv_reuse_disk_bytes: int | None
    reprime: bool
    answer_cache: AnswerCaching
    answer_cache_similarity: float
    answer_cache_entries: int
    answer_cache_bytes: int
    answer_cache_age_s: float
    scrub_hours: float
    disabled_passes: frozenset[str]
    on_pass_failure: OnPassFailure
    tool_threads: int
    requests_max: int
    bulk_share: float
    question_chars_max: int
    retries_max: int
    deadline_s: float
