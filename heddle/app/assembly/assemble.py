"""From a server's lanes to its runtime: which ports stand behind one, and what drives them.

The steps, in this order: the ports of all lanes; LLM lanes with roles behind one port; the lanes of
a sharded index, or equal lanes, behind one port; the embedding lanes behind one port, which is also
the door of the embedding service; and a runtime over what these steps leave.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from heddle.app.assembly.embedding_lanes import embedding_pool, is_ready
from heddle.app.assembly.lanes import LLM, VECTOR, VECTOR_ROWS
from heddle.app.assembly.pass_runner import pass_runner
from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.embedding_service import EmbeddingService, Encoder
from heddle.app.extensions import Extensions
from heddle.app.kept_passages import passages_of
from heddle.app.replicas import replicas_of
from heddle.app.runtime_thread import RuntimeThread
from heddle.core.commands import KvSent, Steer
from heddle.core.credits import Credits
from heddle.core.errors import ConfigError
from heddle.core.ports import Clock, EnginePort, Tokenizer, Tracer, WorkPool
from heddle.core.primitives import PrimitiveKind
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.engines.llm.lanes.disaggregated_port import DisaggregatedPort, LlmLane
from heddle.engines.llm.lanes.lane_role import lane_names
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.engines.remote.generation.prompt_text import TextPrompts
from heddle.engines.vector.shards.port import ShardedPort
from heddle.hosts.checked_port import CheckedPort
from heddle.hosts.engine_thread import EngineThread
from heddle.hosts.inline import InlineHost
from heddle.hosts.lane_main import call_factory
from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.process import ProcessLane
from heddle.hosts.replicated_port import ReplicatedPort
from heddle.runtime.batching import policy_named
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime

Ports = list[EnginePort]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a runtime is made of.

    Args:
        plan: the server's.
        store: its corpus; None = it has none.
        reads: the corpus as the runtime's thread reads it, which waits for no silent database.
        clock: the time of everything.
        thread: where the runtime lives.
        lanes: the lanes that are processes.
        inline: the lanes whose engines are built in this process.
        calls: the ports of functions: users' own, and the search in a request's documents.
        tokenizing: threads that tokenise long prompts.
        remote: the ports of models that other servers run.
        tracers: what each step is reported to.
        extensions: passes and engines of the user's own.

    Mutates: `ending` takes in how to close what is made; the newest is closed first.
    """

    plan: ServerPlan
    store: CorpusStore | None
    reads: CorpusStore | None
    clock: Clock
    thread: RuntimeThread
    lanes: tuple[ProcessLane, ...]
    inline: tuple[LaneSpec, ...]
    calls: Sequence[EnginePort]
    tokenizing: WorkPool
    remote: Sequence[EnginePort]
    tracers: Sequence[Tracer]
    extensions: Extensions
    ending: ExitStack

    def close_on_thread(self, close: Callable[[], None]) -> None:
        """Have something that lives on the runtime's thread closed there."""
        self.ending.callback(self.thread.call_last, close)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A runtime on its loop; `embedding` is None where no lane embeds."""

    loop: RuntimeLoop
    embedding: EmbeddingService | None


def assemble(parts: Parts) -> Assembled:
    """Join ports, runtime and loop, and start the loop; call it on the runtime's thread.

    Raises:
        ConfigError, InputError, StorageError: an engine in this process can't be built.
        EngineError: an embedding lane doesn't answer.
    """
    plan = parts.plan
    ports = disaggregated([*_lane_ports(parts)], plan)
    ports = sharded(replicated(ports, plan, parts.clock), plan)
    ports, embedding = _pooled([*ports, *parts.remote], parts)
    own = _own_ports(parts)
    ports = [*ports, *parts.calls]
    _check_own_names(own, ports)
    runtime = Runtime(
        ports=(*ports, *own),
        planner=RegionPlanner(pass_runner(plan.config, parts.clock, parts.extensions)),
        policy=policy_named(plan.config.batching),
        limits=plan.config.limits,
        tokenizer=_tokenizer(plan),
        passages=passages_of(parts.reads),
        numerics="batch-dependent" if plan.remote.generator is None else "remote",
        tracers=parts.tracers,
        clock=parts.clock,
        speculates=plan.search.speculates,
        busy_max=plan.search.busy_max,
        threads=parts.tokenizing,
        preferred=frozenset(port.name for port in own),
        # What an own engine finds may change without the corpus.
        changes=None if any(PrimitiveKind.SEARCHING in port.kinds for port in own) else parts.reads,
    )
    loop = RuntimeLoop(runtime, parts.clock, parts.thread.event_loop)
    loop.start()
    parts.close_on_thread(loop.close)
    return Assembled(loop, embedding)


def disaggregated(ports: Ports, plan: ServerPlan) -> Ports:
    """Put LLM lanes with roles behind one port, which reports to a vector pool what they send."""
    names = lane_names(plan.roles)
    lanes = [port for port in ports if port.name in names]
    if len(lanes) < 2:
        return ports
    pools = [port for port in ports if plan.pool and PrimitiveKind.SEARCHING in port.kinds]

    def on_sent(kv_sent: KvSent) -> None:
        for pool in pools:
            pool.send(Steer(kv_sent=kv_sent))

    seats = plan.config.max_num_seqs
    by_role = [LlmLane(port, role, seats) for port, role in zip(lanes, plan.roles, strict=True)]
    # As for one lane: twice the seats, two credits a generation.
    credits = Credits(4 * seats * sum(role.decodes for role in plan.roles))
    whole = DisaggregatedPort(LLM, by_role, is_ready, on_sent, credits)
    return [*(port for port in ports if port not in lanes), whole]


def replicated(ports: Ports, plan: ServerPlan, clock: Clock) -> Ports:
    """Put equal engines behind one port each; those that embed get theirs as a pool."""
    count = replicas_of(plan.config.replicas).retrieval
    if count == 1:
        return ports
    copies: dict[str, Ports] = {}
    for port in ports:
        name, _, number = port.name.rpartition("-")
        if name in (VECTOR, *(reader.name for reader in plan.readers)) and number.isdigit():
            copies.setdefault(name, []).append(port)
    wholes = [
        ReplicatedPort(name, equal, is_ready, clock)
        for name, equal in copies.items()
        if len(equal) > 1
    ]
    behind = [port for whole in wholes for port in whole.ports]
    return [*(port for port in ports if port not in behind), *wholes]


def sharded(ports: Ports, plan: ServerPlan) -> Ports:
    """Put the lanes of a sharded index behind one port."""
    parts = [port for port in ports if PrimitiveKind.SEARCHING in port.kinds]
    if len(parts) < 2:
        return ports
    whole = ShardedPort(VECTOR, parts, is_ready, plan.lost_shard, Credits(VECTOR_ROWS))
    return [*(port for port in ports if port not in parts), whole]


def _own_ports(parts: Parts) -> Ports:
    """Return the ports of the user's own engines, each on a thread of its own where it has none."""
    ports: Ports = list(parts.extensions.ports)
    for own in parts.extensions.engines:
        host = EngineThread(own.engine, own.credits_total, parts.clock)
        parts.ending.callback(host.close)
        ports.append(host)
    if not ports:
        return []  # nothing is to be read of the corpus
    dim = None if parts.store is None else parts.store.dims or None
    return [CheckedPort(port, dim) for port in ports]


def _check_own_names(own: Ports, ports: Ports) -> None:
    taken = {port.name for port in ports}
    for port in own:
        if port.name in taken:
            raise ConfigError(
                f"engines: the name {port.name!r} is taken; {', '.join(sorted(taken))} are"
            )


def _lane_ports(parts: Parts) -> Iterator[EnginePort]:
    """Yield the port of each engine; those of this process are built, one after another."""
    for lane in parts.lanes:
        yield from lane.ports.values()
    for spec in parts.inline:
        for engine in spec.engines:
            host = InlineHost(call_factory(engine, epoch=1), engine.credits_total, parts.clock)
            parts.close_on_thread(host.close)
            yield host


def _pooled(ports: Ports, parts: Parts) -> tuple[Ports, EmbeddingService | None]:
    """Put the embedding lanes behind one port, and the embedding service in front of it."""
    lanes = [port for port in ports if PrimitiveKind.EMBEDDING in port.kinds]
    encoder, placement = _encoder(parts.plan), parts.plan.placement
    if encoder is None or not lanes:
        return ports, None
    llm = next((port for port in ports if PrimitiveKind.DECODING in port.kinds), None)
    pool = embedding_pool(
        lanes,
        TokenEstimate(encoder.max_tokens, parts.plan.config.long_texts),
        parts.clock,
        tokens_max=placement.waiting_tokens,
        fits_prior=encoder.is_packaged,
        are_alike=not parts.plan.embedding,
        lender=llm if placement.is_lent else None,
        windve=parts.plan.windve,
    )
    parts.close_on_thread(pool.close)

    def give_back(task_id: int) -> None:
        parts.thread.post(lambda: pool.cancel(task_id))

    service = EmbeddingService(pool, encoder, give_back, parts.clock)
    return [*(port for port in ports if port not in lanes), pool], service


def _encoder(plan: ServerPlan) -> Encoder | None:
    """Return what embeds, here or on other servers; None = nothing does."""
    return plan.encoder if plan.remote.embedder is None else plan.remote.embedder.first


def _tokenizer(plan: ServerPlan) -> Tokenizer | None:
    if plan.remote.generator is not None:
        context = plan.remote.context_tokens_max
        return TextPrompts() if context is None else TextPrompts(context)
    if plan.generator is None:
        return None
    return PromptTokenizer.from_directory(plan.generator.directory, plan.config.context_tokens_max)
