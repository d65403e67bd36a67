"""ServerConfig: every setting of a server, in one frozen value that is checked when it is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from heddle.app.config_checks import check_plain_names, check_together
from heddle.app.models.model_names import default_workflow, is_extractor
from heddle.app.models.remote_name import check_remote_name
from heddle.app.replicas import replicas_of
from heddle.app.setting import did_you_mean, fields_of, setting
from heddle.app.stage_mix import stage_mix_of
from heddle.core.call_order import AGEING_DEFAULT, CallOrder
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import FULL_ATTENTION, KV_REUSE_FORM, KvReuse
from heddle.core.tasks import Optimizations
from heddle.corpus.place import CorpusPlace, is_database
from heddle.engines.embedding.admission_policies import WINDVE_SLO_S
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.wanted_lanes import AUTO, LANES_FORM, wanted_lanes
from heddle.engines.llm.lanes.lane_role import ROLES, LaneRole, lane_roles
from heddle.engines.llm.step_sizes import BACKGROUND_STEP_S, STEP_TOKENS
from heddle.engines.reading.installed import EXTRACT
from heddle.engines.vector.graph.scheduler import TOPM, TOPM_MAX
from heddle.engines.vector.ivf.hot.setting import hot_settings
from heddle.engines.vector.pool.limits import PREFILL_SLO_S
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.shards.port import LostShard
from heddle.hosts.nodes.address import agent_addresses
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.answer_cache import AnswerCacheLimits
from heddle.runtime.batching import FIRST_SERVED
from heddle.workflow.caching.answer_caching import Caching
from heddle.workflow.writing import MAX_TOKENS_MAX, TEMPERATURE_MAX

EngineHost = Literal["process", "inline"]
Rerank = Literal["auto", "always", "never"]
Speculate = Literal["auto", "always", "never"]
SearchIn = Literal["lanes", "postgres"]
OnLaneFailure = Literal["exit", "retry"]
OnPassFailure = Literal["fail", "keep"]
Admission = Literal["predicted", "windve"]
Dtype = Literal["auto", "float32", "bfloat16"]
Device = Literal["auto", "cpu", "cuda"]
AttentionName = Literal["auto", "torch", "triton", "compiled"]
Weights = Literal["full", "int8"]
KvReuseEncoding = Literal["bf16", "int8"]
AnswerCaching = Literal["off", "exact", "similar"]
Batching = Literal[
    "shortest_first", "topology_aware", "algorithm2_strict", "blind", "per_invocation"
]

KV_REUSE_MEMORY_BYTES_DEFAULT: Final = 256 << 20
SHARDS_MAX: Final = 64  # each is a process
LIMITS: Final = RuntimeLimits()
ANSWER_LIMITS: Final = LIMITS.answers
ANSWERS_MAX: Final = 10_000  # each lookup compares its question with all of them
# The headings that settings stand under.
MODEL: Final = "models"
SEARCH: Final = "search"
REUSE: Final = "KV reuse"
ANSWERS: Final = "answer cache"
LANES: Final = "engines and lanes"
BOUNDS: Final = "bounds of requests"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Every setting of a server; `Server` takes the same names as keywords.

    The meaning and the accepted values of each stand at its field and in docs/reference/config.md.
    `ServerConfig.of` converts texts; made directly, every value must have its own type.

    Raises:
        ConfigError: a value can't be used; the message names the field and the accepted values.

    Example:
        from heddle import ConfigError, Server, ServerConfig

        settings = {"dtype": "float32", "optimizations": "exact"}
        with Server.from_config(ServerConfig.of("reader", "corpus", settings)) as server:
            print(server.config.optimizations)  # Optimizations.EXACT
        try:
            ServerConfig.of("reader", "corpus", {"dtype": "float17"})
        except ConfigError as error:
            print(error)  # dtype must be one of auto, float32, bfloat16, got 'float17' (str)
    """

    generator: str | Path | None = setting(
        EXTRACT,
        "model that answers",
        details="extract = the extractor, which quotes answers from the corpus and writes no text "
        "of its own; a model that writes is a directory with safetensors, an installed model's "
        "name, owner/name of one on the hub, or one that another server runs: its address, such as "
        "http://127.0.0.1:8000/v1#NAME, or openai#NAME; auto = what Ollama, llama.cpp or vLLM run "
        "on this machine; none = no model answers",
        group=MODEL,
        form="DIR|NAME|URL",
        check=check_remote_name,
        none="none",
        flag="model",
        is_common=True,
    )
    index: str | Path | CorpusPlace | None = setting(
        None,
        "corpus directory, made by `heddle index`, or the URL of a PostgreSQL database",
        details="such as postgresql://USER@HOST/DATABASE; none = no retrieval; `heddle ask` and "
        "`heddle serve` take it as argument DIR",
        group=SEARCH,
        form="DIR|URL",
        none="none",
        is_common=True,
    )
    stale_max_s: float = setting(
        60.0,
        "how long searches go on while the corpus's database is away",
        details="as the corpus was; each answer notes it; 0 = they fail at once",
        group=SEARCH,
        form="SECONDS",
        unit="s",
        low=0,
        flag="stale-max",
    )
    search_in: SearchIn = setting(
        "lanes",
        "what searches by meaning",
        details="lanes = retrieval lanes of this server, each over an index of its own; postgres = "
        "the corpus's database, by pgvector, over an index that `heddle index --pgvector` has made",
        group=SEARCH,
    )
    embedder: str | Path | None = setting(
        None,
        "model that embeds texts",
        details="a Hugging Face encoder, or URL#NAME of one that another server runs; it must be "
        "the one that the corpus was indexed with",
        group=MODEL,
        form="DIR|NAME|URL",
        check=check_remote_name,
        default_words="the packaged MiniLM",
    )
    reranker: str | Path | None = setting(
        EXTRACT,
        "model that ranks passages",
        details="it reads what a search has found, where the request or the workflow asks for it; "
        "extract = the extractor; a directory holds a cross-encoder; URL#NAME = one that another "
        "server runs",
        group=MODEL,
        form="DIR|NAME|URL",
        check=check_remote_name,
        none="none",
    )
    rerank: Rerank = setting(
        "auto",
        "whether workflow `oneshot` reranks its passages",
        details="a model reads twice as many, and three of five stay in the prompt; auto = where "
        "reading them is predicted to take less time than the longer prompt, unless a request "
        "says how many it wants or reuses passages' KV",
        group=MODEL,
    )
    engine_host: EngineHost = setting(
        "process",
        "where the engines run",
        details="process = in processes of their own; inline = in the server's process, whose "
        "allocator then keeps up to 512 MiB that an LLM on the CPU frees between its steps",
        group=LANES,
    )
    dtype: Dtype = setting(
        "auto",
        "number type that the LLM and the embedder compute in",
        details="auto = bfloat16 on a GPU; on a CPU with AMX or AVX512-BF16 the one that a layer "
        "of the LLM runs faster in, which heddle doctor prints; else float32; the embedder uses "
        "the type that the corpus was embedded with",
        group=MODEL,
    )
    device: Device = setting(
        "auto", "device of the LLM", details="auto = a GPU if there is one", group=MODEL
    )
    attention: AttentionName = setting(
        "auto",
        "kernel that computes the LLM's attention",
        details="triton needs an NVIDIA GPU; compiled is C code, compiled on this machine for "
        "its CPU; auto = the fastest that runs here",
        group=MODEL,
    )
    weights: Weights = setting(
        "full",
        "numbers that the LLM's weights are kept in",
        details="int8 = 8 bits on a grid for each 32 of them, on a CPU: about half the memory, and "
        "faster where few texts are written at once; answers may differ a little; full = numbers "
        "of the type that dtype names",
        group=MODEL,
    )
    embedding_lanes: str = setting(
        AUTO,
        "lanes that embed, each a process with cores or a device of its own",
        details="auto = one for each accelerator, and one on the CPU of each NUMA node that the "
        "plan has cores on; on one node without accelerators embedding shares the retrieval cores; "
        "cpu:0-3,cpu:4-7,cuda:0 names them; cpu:0-3+8-11 is one lane",
        group=LANES,
        form=LANES_FORM,
        check=wanted_lanes,
    )
    embedding_admission: Admission = setting(
        "predicted",
        "which queries the embedding lanes take",
        details="predicted = each that is predicted to be done by its own deadline; windve = as "
        "many at once as each lane's depth, long or short ones (WindVE's Algorithm 1)",
        group=LANES,
    )
    embedding_slo_s: float | None = setting(
        None,
        "time limit of a query that the depths of windve are for",
        group=LANES,
        form="SECONDS",
        unit="s",
        above=0,
        default_words=f"{WINDVE_SLO_S:g}",
    )
    embedding_depths: str | Path | None = setting(
        None,
        "file that `heddle profile --together` has written",
        details="windve takes its depths from there; none = from bursts when the server starts",
        group=LANES,
        form="FILE",
        none="none",
    )
    long_texts: LongTexts = setting(
        LongTexts.CUT,
        "how texts longer than the embedder's limit are embedded",
        details="cut = only the beginning counts; window = the text is read in windows, and "
        "the mean of their vectors counts",
        group=SEARCH,
    )
    nprobe: int | None = setting(
        None,
        "clusters that each search scans",
        details="for an index of kind exact or auto, and pgvector's ivfflat",
        group=SEARCH,
        form="N",
        low=1,
        default_words="the index's own",
    )
    topm: int | None = setting(
        None,
        "candidates that each graph search keeps",
        details="more find more, and take longer; also of pgvector's hnsw, where it is 100",
        group=SEARCH,
        form="N",
        low=1,
        high=TOPM_MAX,
        default_words=str(TOPM),
    )
    recall: float | None = setting(
        None,
        "share of the exact hits to find",
        details="exact = searches scan every list that they plan; a share such as 0.95 is kept "
        "on average, and searches stop early; the stop is learnt from searches that are run "
        "again exactly; answers may differ, so a share turns optimizations to approx",
        group=SEARCH,
        form="exact|SHARE",
        above=0,
        below=1,
        none="exact",
    )
    speculate: Speculate = setting(
        "auto",
        "whether prompts are computed, and answered, while their search still runs",
        details="answers stay the same, and each guess must be predicted to pay; auto = where the "
        "index is in one piece, the model runs in Heddle, and scans of a flat index don't use its "
        "cores (lend_cores); always = with an index in one piece and a model in Heddle alone: "
        "other settings are refused, and `oneshot` doesn't rerank by itself",
        group=SEARCH,
    )
    hot_clusters: str = setting(
        "auto",
        "share of the index that a GPU holds as well",
        details="the clusters that are searched most; auto = 20% where there is a GPU, and beside "
        "an LLM there what a memory profile leaves, or what there is room for",
        group=SEARCH,
        form="auto|off|N%",
        check=lambda text: hot_settings(text, has_gpu=True),
    )
    graph_device: Device = setting(
        "auto",
        "where an index that is a graph is searched",
        details="cpu = by the retrieval lane's cores; cuda = on a GPU; auto = on a GPU if there is "
        "one with room for it, and Triton",
        group=SEARCH,
    )
    search_pool: PoolPolicy | None = setting(
        None,
        "order in which searches share the vector lane",
        details="for searches before a prefill and searches while decoding; none = all run "
        "side by side",
        group=SEARCH,
        none="none",
    )
    search_pool_slo_s: float | None = setting(
        None,
        "time limit of a search before a prefill in that pool",
        group=SEARCH,
        form="SECONDS",
        unit="s",
        above=0,
        default_words=f"{PREFILL_SLO_S:g}",
    )
    search_pool_flush_s: float = setting(
        0.0,
        "how long a search in that pool waits for others to start with it",
        details="only while others run; one before a prefill waits for a quarter of it at first, "
        "which the adaptive policy turns; 0 = none waits, the fastest where that was measured",
        group=SEARCH,
        form="SECONDS",
        unit="s",
        low=0,
        high=1,
    )
    shards: int = setting(
        1,
        "lanes that each search one part of the index",
        group=SEARCH,
        form="N",
        low=1,
        high=SHARDS_MAX,
    )
    lost_shard: LostShard = setting(
        LostShard.FAIL,
        "what a search does while a shard's lane is down",
        details="degrade = the other shards answer, and the receipt says so; fail = it waits "
        "for the lane, or fails",
        group=SEARCH,
    )
    llm_lanes: str = setting(
        LaneRole.BOTH.value,
        "LLM lanes, by role",
        details=f"one process with its own cores and weights for each role "
        f"({', '.join(ROLES)}); prefill,decode computes prompts on one lane and hands their KV "
        "to another, which writes the answers; both does all",
        group=LANES,
        form="ROLE[,ROLE...]",
        check=lane_roles,
    )
    replicas: str = setting(
        "llm=1,retrieval=1",
        "equal lanes of a kind",
        details="each has its own process, weights and index: llm=2 is --llm-lanes both,both; "
        "with retrieval=2 two lanes embed, search and read. Where one dies or stalls, the "
        "others go on",
        group=LANES,
        form="KIND=N[,KIND=N]",
        check=replicas_of,
    )
    agents: str | None = setting(
        None,
        "nodes that run the LLM lanes, by the addresses of their agents",
        details="`heddle agent` on each node; lanes of one role stand on different nodes, and one "
        "whose node is lost starts on another that has room; what reads the corpus stays on this "
        "machine",
        group=LANES,
        form="HOST:PORT[,HOST:PORT...]",
        none="none",
        check=agent_addresses,
    )
    ray: str | None = setting(
        None,
        "Ray cluster whose nodes run the LLM lanes",
        details="auto = the one that this machine belongs to; Ray starts an agent on each node, "
        "which then serves as one of --agents; needs the extra ray, and a cluster with a token",
        group=LANES,
        form="auto|HOST:PORT",
        none="none",
    )
    cluster_secret_file: str | Path | None = setting(
        None,
        "secret that this server and the agents of its nodes have in common",
        details="`heddle agent --new-secret FILE` makes one; no other user may read the file; with "
        "--ray one is made for each run unless it is named",
        group=LANES,
        form="FILE",
    )
    on_lane_failure: OnLaneFailure = setting(
        "exit",
        "what becomes of a server whose lane has died too often",
        details="such a lane is started once more each minute; exit = where its role has no other "
        "lane left, `heddle serve` drains and ends with exit code 4, so that it is started again "
        "from outside; retry = it goes on, and what needs the lane fails until then",
        group=LANES,
    )
    max_num_seqs: int = setting(
        16, "sequences that an LLM lane runs at once", group=LANES, form="N", low=1
    )
    max_num_batched_tokens: int | None = setting(
        None,
        "most tokens of one LLM step",
        group=LANES,
        form="N",
        low=1,
        default_words=f"{STEP_TOKENS}, on a GPU the fewest that are nearly as fast as any, timed "
        "at the start",
    )
    background_step_s: float = setting(
        BACKGROUND_STEP_S,
        "length of an LLM step for background work, such as priming",
        details="a request that arrives during the step waits for its end; a large model "
        "primes faster with longer steps",
        group=LANES,
        form="SECONDS",
        unit="s",
        above=0,
    )
    context_tokens_max: int | None = setting(
        None,
        "most tokens of a prompt and its answer",
        group=MODEL,
        form="N",
        low=1,
        default_words="the model's own limit, or what the KV cache holds",
    )
    max_tokens: int | None = setting(
        None,
        "most tokens of an answer",
        group=MODEL,
        form="N",
        low=1,
        high=MAX_TOKENS_MAX,
        default_words="the model's own",
        is_common=True,
    )
    temperature: float | None = setting(
        None,
        "sampling temperature of answers",
        details="0 = the likeliest token each time",
        group=MODEL,
        form="T",
        low=0,
        high=TEMPERATURE_MAX,
        default_words="the workflow's, mostly 0",
    )
    system: str | None = setting(
        None,
        "what the model is to be",
        details="the system text; where the model's chat template has no place for one, it begins "
        "the prompt",
        group=MODEL,
        form="TEXT",
        none="none",
        is_common=True,
    )
    prompt_file: str | Path | None = setting(
        None,
        "file with a prompt",
        details="a template with {docs} and {input}, in the place of the workflow's own, for the "
        "generations that write the answer",
        group=MODEL,
        form="FILE",
        flag="prompt",
        default_words="the workflow's",
        is_common=True,
    )
    kv_cache_bytes: int | None = setting(
        None,
        "memory of each LLM lane's KV cache",
        group=MODEL,
        form="SIZE",
        unit="bytes",
        low=1,
        default_words="the memory that is left, at most 1G, on a GPU all that is left there; with "
        "a memory profile as it says",
    )
    memory_profile: str | Path | None = setting(
        None,
        "file that `heddle profile --memory` has written",
        details="the KV cache gets the smallest size that serves the most requests, and the index "
        "gets the rest",
        group=MODEL,
        form="FILE",
        none="none",
    )
    expected_rate: float | None = setting(
        None,
        "requests a second that the memory profile is read for",
        group=MODEL,
        form="N",
        above=0,
        default_words="as many as are served",
    )
    stage_mix: str | None = setting(
        None,
        "generations and searches of a request that the memory profile is read for",
        details="on average; /health of a running server counts them",
        group=MODEL,
        form="GENERATIONS,SEARCHES",
        check=stage_mix_of,
        default_words="those of the workflow that was measured",
    )
    batching: Batching = setting(
        "shortest_first",
        "order in which waiting work enters an engine's batch",
        details="shortest_first = what takes the engine least time, with ageing; topology_aware = "
        "the oldest request's deepest work (Teola's Algorithm 2; strict = nothing else beside it); "
        "blind = as it came; per_invocation = as it came, one call at a time",
        group=LANES,
    )
    ageing: float = setting(
        AGEING_DEFAULT,
        "seconds of a call's own work that a second of waiting makes up for",
        details="of shortest_first: less favours short calls more, and long ones wait longer",
        group=LANES,
        form="SHARE",
        above=0,
    )
    lend_cores: bool = setting(
        True,
        "whether the LLM and retrieval compute on each other's cores while these are idle",
        details="where both have cores of their own on one NUMA node, one lane each",
        group=LANES,
    )
    optimizations: Optimizations | None = setting(
        None,
        "the most that any request may use",
        details="off = none; exact = the answers stay the same; approx = answers may differ",
        group=BOUNDS,
        default_words="exact, or approx if recall, kv_reuse or answer_cache asks for it",
    )
    kv_reuse: KvReuse = setting(
        FULL_ATTENTION,
        "how to reuse stored chunk KV",
        details="full = full attention, no reuse; every other policy turns optimizations to "
        f"approx; {KV_REUSE_FORM}; the ratio is the share of the chunks' tokens that is "
        "recomputed, 0.15 unless given",
        group=REUSE,
        form="POLICY[,...]",
        default_words="full",
    )
    kv_reuse_memory_bytes: int = setting(
        KV_REUSE_MEMORY_BYTES_DEFAULT,
        "host memory for stored chunk KV",
        details="0 = none is kept",
        group=REUSE,
        form="SIZE",
        unit="bytes",
        low=0,
        default_words="256M",
    )
    kv_reuse_encoding: KvReuseEncoding = setting(
        "bf16",
        "number type of stored chunk KV",
        details="int8 takes half of bf16; the receipt reports its error. KV that is stored "
        "already keeps its type",
        group=REUSE,
    )
    kv_reuse_disk_bytes: int | None = setting(
        None,
        "disk space for each model's stored chunk KV, in the corpus directory",
        details="0 = none is stored",
        group=REUSE,
        form="SIZE",
        unit="bytes",
        low=0,
        default_words="1G, or what is stored already",
    )
    reprime: bool = setting(
        True,
        "prime chunks in the background when a request meets them unprimed",
        details="in a primed corpus, for example the neighbours of a changed chunk",
        group=REUSE,
    )
    answer_cache: AnswerCaching = setting(
        "off",
        "whether an earlier answer is given again",
        details="where its searches still find the same passages; exact = to a question of equal "
        "text; similar = also to one of similar meaning, which turns optimizations to approx; off "
        "= only in workflows that have a cache of their own",
        group=ANSWERS,
    )
    answer_cache_similarity: float = setting(
        0.95,
        "least cosine of two similar questions",
        group=ANSWERS,
        form="COSINE",
        above=0,
        below=1,
    )
    answer_cache_entries: int = setting(
        ANSWER_LIMITS.entries_max,
        "most answers that are kept",
        group=ANSWERS,
        form="N",
        low=1,
        high=ANSWERS_MAX,
    )
    answer_cache_bytes: int = setting(
        ANSWER_LIMITS.bytes_max,
        "memory for kept answers and the passages that they rest on",
        group=ANSWERS,
        form="SIZE",
        unit="bytes",
        low=1,
        default_words="64M",
    )
    answer_cache_age_s: float = setting(
        ANSWER_LIMITS.age_s_max,
        "how long an answer is kept",
        group=ANSWERS,
        form="SECONDS",
        unit="s",
        above=0,
    )
    scrub_hours: float = setting(
        24.0,
        "hours between two checks of the whole corpus in the background",
        details="256 chunks a second; /health says what is damaged; 0 = a chunk is checked only "
        "when it is read",
        group=BOUNDS,
        form="HOURS",
        low=0,
    )
    disabled_passes: frozenset[str] = setting(
        frozenset(),
        "optimizer passes to leave out",
        group=LANES,
        form="NAME[,NAME...]",
        check=check_plain_names,
    )
    on_pass_failure: OnPassFailure = setting(
        "fail",
        "what becomes of a request whose graph an optimizer pass breaks",
        details="fail = it fails, with the name of the pass; keep = it runs with the graph before "
        "that pass, and its receipt says so",
        group=LANES,
    )
    tool_threads: int = setting(8, "calls of user functions at once", group=LANES, form="N", low=1)
    requests_max: int = setting(
        LIMITS.requests_max,
        "requests in flight; more are refused",
        group=BOUNDS,
        form="N",
        low=1,
    )
    bulk_share: float = setting(
        LIMITS.bulk_share,
        "share of requests_max that requests of priority bulk may fill",
        group=BOUNDS,
        form="SHARE",
        low=0,
        high=1,
    )
    question_chars_max: int = setting(
        LIMITS.question_chars_max,
        "most characters of each text of a request",
        group=BOUNDS,
        form="N",
        low=1,
    )
    retries_max: int = setting(
        LIMITS.retries_max,
        "how often a failed primitive is sent again",
        group=BOUNDS,
        form="N",
        low=0,
    )
    deadline_s: float = setting(
        LIMITS.deadline_s,
        "time until a request fails, unless it has its own deadline",
        group=BOUNDS,
        form="SECONDS",
        unit="s",
        above=0,
    )

    def __post_init__(self) -> None:
        if is_database(self.index):  # whose password no message and no file shows from here on
            object.__setattr__(self, "index", self.place)
        for name, field in fields_of(ServerConfig).items():
            field.check(getattr(self, name))
        check_together(self)

    @classmethod
    def of(
        cls,
        generator: str | Path | None = None,
        index: str | Path | CorpusPlace | None = None,
        settings: Mapping[str, Any] = {},
    ) -> Self:
        """Return the configuration of these settings, where texts stand for values as well.

        Args:
            generator: the model that writes the answers; None = no generation.
            index: the corpus's directory or URL; None = no retrieval.
            settings: other fields by name, such as {"long_texts": "window", "shards": "2"}.

        Raises:
            ConfigError: a name is unknown or a value can't be used; the message says what can.
        """
        known = fields_of(ServerConfig)
        given = {"generator": generator, "index": index}
        for name, value in settings.items():
            if name not in known:
                raise ConfigError(
                    f"{name!r} is no setting of a server: {did_you_mean(name, known)}"
                )
            if name in given:
                raise ConfigError(f"{name} is given twice: by itself and among the settings")
            given[name] = value
        read: dict[str, Any] = {name: known[name].read(value) for name, value in given.items()}
        return cls(**read)

    @property
    def place(self) -> CorpusPlace | None:
        """Where the corpus is; None = there is none."""
        return None if self.index is None else CorpusPlace.of(self.index)

    @property
    def llm(self) -> str | Path | None:
        """The model that writes text; None = none does."""
        return None if is_extractor(self.generator) else self.generator

    @property
    def reads(self) -> bool:
        """Whether the extractor is to read passages: to quote answers, or to rank.

        Without any model that answers, a server only searches: indexing needs no more.
        """
        ranks = is_extractor(self.reranker) and self.llm is not None
        return is_extractor(self.generator) or (ranks and self.index is not None)

    @property
    def default_workflow(self) -> str:
        """The ready-made workflow of requests that name none."""
        return default_workflow(self.generator)

    @property
    def optimizations_max(self) -> Optimizations:
        """The most that any request may use."""
        if self.optimizations is not None:
            return self.optimizations
        return Optimizations.APPROX if self.approximation else Optimizations.EXACT

    @property
    def call_order(self) -> CallOrder:
        """Whose call each engine serves first."""
        return CallOrder(FIRST_SERVED[self.batching], self.ageing)

    @property
    def limits(self) -> RuntimeLimits:
        """The bounds of the runtime."""
        return RuntimeLimits(
            requests_max=self.requests_max,
            bulk_share=self.bulk_share,
            question_chars_max=self.question_chars_max,
            retries_max=self.retries_max,
            deadline_s=self.deadline_s,
            answers=AnswerCacheLimits(
                self.answer_cache_entries, self.answer_cache_bytes, self.answer_cache_age_s
            ),
        )

    @property
    def caching(self) -> Caching:
        """Which workflows get an answer cache, before a request's own options."""
        is_similar = self.answer_cache == "similar"
        similarity = self.answer_cache_similarity if is_similar else None
        return Caching(adds=self.answer_cache != "off", similarity=similarity)

    @property
    def approximation(self) -> str:
        """The setting that asks for approximate answers; empty where none does."""
        if self.recall is not None:
            return f"recall {self.recall:g}"
        if self.answer_cache == "similar":
            return "answer_cache 'similar'"
        return f"kv_reuse {self.kv_reuse.policy.value!r}" if self.kv_reuse.is_approximate else ""
