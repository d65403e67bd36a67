"""A generation that retrieves while it decodes: in rounds, each lowered when it is due. (ADR 9)

Its first round is lowered with its node, and with it one primitive that stays open until the
whole text is there: after every pause the runtime asks here for the next round.
"""

from heddle.core.payloads import NO_PAUSE
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph, data_edges, outside_reads
from heddle.graph.primitive import (
    DecodeConfig,
    Part,
    PrefillConfig,
    Primitive,
    Read,
    RoundsConfig,
    SoFar,
    SpliceConfig,
)
from heddle.lowering.documents import own_passages
from heddle.lowering.generation import prefill_and_decode, system_part
from heddle.lowering.reads import bind
from heddle.lowering.retrieval import embed_and_search
from heddle.lowering.scope import Scope
from heddle.workflow.compile import shown_retrieval
from heddle.workflow.nodes import OWN_SLOTS, DecodeRetrieval, GenerationNode, Parse
from heddle.workflow.template import Slot, Template
from heddle.workflow.workflow import Workflow


def lower_rounds(
    node: GenerationNode, retrieval: DecodeRetrieval, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one turn up to its first pause, and the key its slot gets."""
    source = shown_retrieval(node, workflow.nodes, workflow.writers)
    assert source is not None, f"node {node.id!r} shows no retrieval's passages"
    parts = node.prompt.parts
    shows = [isinstance(part, Slot) and part.name == source.output for part in parts]
    place = len(parts) - shows[::-1].index(True)
    config = RoundsConfig(
        before=(*system_part(node), *bind(Template(parts[:place]), node.id, workflow, scope)),
        after=bind(Template(parts[place:]), node.id, workflow, scope),
        query=_query(node, retrieval.query, workflow, scope),
        topk=source.topk,
        nprobe=source.nprobe,
        topm=source.topm,
        where=source.where,
        hybrid=source.hybrid,
        retrievals_max=retrieval.retrievals_max,
        added_max=retrieval.added_max,
        sampling=node.sampling,
        pause=retrieval.pause,
        as_lines=node.parse is Parse.LINES,
        is_fenced=node.fence,
        within=own_passages(source, scope),
        turn=scope.turn_of(node.id),
    )
    name, suffix, output = str(node.id), _suffix(0, config.turn), f"{node.output}@{config.turn}"
    written = f"{name}.written{suffix}"
    prompt = PrefillConfig((*config.before, *config.after), is_fenced=config.is_fenced)
    decode = DecodeConfig(f"{name}.kv{suffix}", node.sampling, as_lines=False, pause=config.pause)
    rounds = Primitive(
        name=f"{name}.rounds{suffix}",
        kind=PrimitiveKind.AGGREGATE,
        node=name,
        reads=(written,),
        writes=(output,),
        config=config,
    )
    return (*prefill_and_decode(name, suffix, prompt, decode, written), rounds), output


def lower_round(rounds: Primitive, number: int, depth: int) -> PGraph:
    """Return round `number`, from 1: a search, and the decoding that continues with its hits.

    `rounds` is the primitive that waits for it, at depth `depth`.
    """
    config, node = rounds_config(rounds), rounds.node
    suffix = _suffix(number, config.turn)
    hits, added = round_key(rounds, "hits", number), round_key(rounds, "added", number)
    written = round_key(rounds, "written", number - 1)
    query = tuple(
        Read(round_key(rounds, part.value, number)) if isinstance(part, SoFar) else part
        for part in config.query
    )
    parts = (*config.before, Read(added), *config.after)
    prompt = PrefillConfig(parts, written, config.is_fenced)
    decode = DecodeConfig(
        prefill=round_key(rounds, "kv", number),
        sampling=config.sampling,
        as_lines=False,
        pause=config.pause if number < config.retrievals_max else NO_PAUSE,
        written=written,
    )
    pair = prefill_and_decode(node, suffix, prompt, decode, round_key(rounds, "written", number))
    splice = SpliceConfig(
        shown=tuple(part for part in (*config.before, *config.after) if isinstance(part, Read)),
        added=round_key(rounds, "added", number - 1) if number > 1 else None,
        hits=hits,
        written=written,
        prefill=pair[0].name,
        added_max=config.added_max,
        tokens_max=config.sampling.max_tokens,
    )
    aggregate = Primitive(
        name=f"{node}.aggregate{suffix}",
        kind=PrimitiveKind.AGGREGATE,
        node=node,
        reads=splice.reads,
        writes=(added,),
        config=splice,
    )
    search = embed_and_search(
        node,
        suffix,
        query,
        config.topk,
        config.nprobe,
        config.topm,
        hits,
        where=config.where,
        hybrid=config.hybrid,
        while_decoding=True,
        within=config.within,
    )
    primitives = (*search, aggregate, *pair)
    tail = {pair[1].name: depth + 1}
    return PGraph(primitives, data_edges(primitives), outside_reads(primitives), tail)


def round_key(rounds: Primitive, what: str, number: int) -> str:
    """Return the key of what round `number` of a generation reads or writes."""
    return f"{rounds.node}.{what}{_suffix(number, rounds_config(rounds).turn)}"


def rounds_config(rounds: Primitive) -> RoundsConfig:
    """Return how a generation of rounds goes on."""
    assert isinstance(rounds.config, RoundsConfig), f"{rounds.name!r} has no rounds"
    return rounds.config


def _query(
    node: GenerationNode, template: Template, workflow: Workflow, scope: Scope
) -> tuple[Part | SoFar, ...]:
    """Bind the query's slots, but those that every round writes anew."""
    found: list[Part | SoFar] = []
    for part in template.parts:
        if isinstance(part, Slot) and part.name in OWN_SLOTS:
            found.append(SoFar(part.name))
        else:
            found.extend(bind(Template((part,)), node.id, workflow, scope))
    return tuple(found)


def _suffix(number: int, turn: int) -> str:
    return f".{number}@{turn}" if number else f"@{turn}"
