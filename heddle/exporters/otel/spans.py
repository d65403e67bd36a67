"""A receipt as the spans of a trace, before any library sees them.

Source: OpenTelemetry's semantic conventions for generative AI, which are still in development:
    operation names, `gen_ai.*` attributes, names of spans. `heddle.*` attributes are ours.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from heddle.core.primitives import PrimitiveKind as Kind
from heddle.exporters.stage_times import StageTime, stage_times
from heddle.runtime.receipt import Receipt

Value: TypeAlias = str | int | float | bool | Sequence[str]
Attributes: TypeAlias = Mapping[str, Value]

PROVIDER: Final = "heddle"
OPERATION: Final = "gen_ai.operation.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
PORTS: Final = {"http": 80, "https": 443}
# The conventions have no names for reranking and for quoting.
OPERATIONS: Final = {
    Kind.EMBEDDING: "embeddings",
    Kind.SEARCHING: "retrieval",
    Kind.MATCHING: "retrieval",
    Kind.RERANKING: "rerank",
    Kind.EXTRACTING: "extract",
    Kind.TOOL: "execute_tool",
}
WRITING: Final = (Kind.PREFILLING, Kind.DECODING)


@dataclass(frozen=True, slots=True)
class Models:
    """The names of what a server works with; "" = there is none.

    Args:
        generator: the model that writes.
        embedder: the one that embeds.
        reader: the one that ranks and quotes.
        corpus: the corpus.
    """

    generator: str = ""
    embedder: str = ""
    reader: str = ""
    corpus: str = ""

    def of(self, kind: Kind) -> str:
        """Return the model that carries out primitives of a kind."""
        match kind:
            case Kind.EMBEDDING:
                return self.embedder
            case Kind.RERANKING | Kind.EXTRACTING:
                return self.reader
            case Kind.PREFILLING | Kind.DECODING | Kind.ASKING | Kind.PRIMING:
                return self.generator
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One span below its parent, [start_s, end_s) from the request's arrival."""

    name: str
    start_s: float
    end_s: float
    attributes: Attributes
    children: tuple["SpanRecord", ...] = field(default=())


def request_attributes(workflow: str) -> Attributes:
    """Return what is known of a request when it begins."""
    return {
        OPERATION: "invoke_workflow",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.workflow.name": workflow,
    }


def receipt_attributes(receipt: Receipt) -> Attributes:
    """Return what is known of a request when it is answered; counters that are 0 are left out."""
    return {
        **{f"heddle.{one.name}": value for one, value in receipt.counted()},
        INPUT_TOKENS: receipt.prompt_tokens,
        OUTPUT_TOKENS: receipt.generated_tokens,
        CACHED_TOKENS: receipt.prompt_tokens_reused,
        "heddle.optimizations": receipt.optimizations.value,
        "heddle.passes": receipt.passes,
        "heddle.degradations": len(receipt.degradations),
    }


def primitive_spans(receipt: Receipt, models: Models) -> tuple[SpanRecord, ...]:
    """Return the spans below a request's own: one for each primitive that an engine carried out.

    Those of a generation stand below a span of the generation, which has its model, its tokens
    and why it ended.
    """
    times = stage_times(receipt.spans)
    writing: dict[str, list[StageTime]] = {}
    found: list[SpanRecord] = []
    for time in times:
        if time.span.kind in WRITING:
            writing.setdefault(_turn(time), []).append(time)
        else:
            found.append(_primitive(time, models))
    found += (_generation(parts, models) for parts in writing.values())
    return tuple(sorted(found, key=lambda one: one.start_s))


def _generation(parts: Sequence[StageTime], models: Models) -> SpanRecord:
    spans = [time.span for time in parts]
    remote = next((span.remote for span in spans if span.remote), "")
    model = remote.partition(" at ")[0] or models.generator
    children = tuple(_primitive(time, models) for time in parts)
    attributes: dict[str, Value] = {
        OPERATION: "chat",
        "gen_ai.provider.name": PROVIDER,
        REQUEST_MODEL: model,
        INPUT_TOKENS: sum(span.tokens_read for span in spans),
        # Where it paused to retrieve, each decode counts those before it as well.
        OUTPUT_TOKENS: max(span.tokens_written for span in spans),
        CACHED_TOKENS: sum(span.tokens_reused for span in spans),
        "heddle.node": spans[0].node,
    }
    reasons = [span.finish_reason.value for span in spans if span.finish_reason is not None]
    if reasons:
        attributes["gen_ai.response.finish_reasons"] = reasons[-1:]
    if remote:
        attributes["gen_ai.response.model"] = model
        attributes |= _server(remote.partition(" at ")[2])
    return SpanRecord(
        _named("chat", model),
        min(child.start_s for child in children),
        max(child.end_s for child in children),
        attributes,
        children,
    )


def _server(url: str) -> Iterator[tuple[str, Value]]:
    """Yield where another server is reached, as OpenTelemetry names it: its host, and its port."""
    place = urlsplit(url)
    yield "server.address", place.hostname or url
    if port := place.port or PORTS.get(place.scheme):
        yield "server.port", port


def _primitive(time: StageTime, models: Models) -> SpanRecord:
    span = time.span
    operation, model = OPERATIONS.get(span.kind, ""), models.of(span.kind)
    attributes: dict[str, Value] = dict(_common(time))
    if operation:
        attributes |= {OPERATION: operation, "gen_ai.provider.name": PROVIDER}
        subject = {"retrieval": models.corpus, "execute_tool": span.node}.get(operation, model)
    else:
        subject = ""
    if operation and model:
        attributes[REQUEST_MODEL] = model
    if operation and span.tokens_read:
        attributes[INPUT_TOKENS] = span.tokens_read
    if operation == "retrieval" and models.corpus:
        attributes["gen_ai.data_source.id"] = models.corpus
    if operation == "execute_tool":
        attributes["gen_ai.tool.name"] = span.node
    name = _named(operation, subject) if operation else span.kind.value
    return SpanRecord(name, max(0.0, time.held_s), max(0.0, span.done_s), attributes)


def _common(time: StageTime) -> Iterator[tuple[str, Value]]:
    span = time.span
    yield "heddle.primitive", span.name
    yield "heddle.kind", span.kind.value
    yield "heddle.node", span.node
    yield "heddle.engine", span.engine
    yield "heddle.rows", span.rows
    yield "heddle.waited_s", max(0.0, time.waited_s)


def _turn(time: StageTime) -> str:
    """Return what the primitives of one generation have in common: their node and its turn."""
    return f"{time.span.node}@{time.span.name.rpartition('@')[2]}"


def _named(operation: str, subject: str) -> str:
    return f"{operation} {subject}" if subject else operation


def count(spans: Iterable[SpanRecord]) -> int:
    """Return how many spans these are, with those below them."""
    return sum(1 + count(span.children) for span in spans)
