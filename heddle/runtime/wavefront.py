"""What could run now and waits: the wavefront that cycle passes see. (HedraRAG §4.5)"""

from collections.abc import Iterator, Mapping

from heddle.core.payloads import IngestPayload, Payload, PrefillPayload
from heddle.core.tasks import Identity, Optimizations, Priority
from heddle.passes.cycle_view import Ready
from heddle.runtime.batching import Pending, by_bucket
from heddle.runtime.lane import Lane
from heddle.runtime.request import Request
from heddle.runtime.task_table import token_count


def wavefront_of(lane: Lane, requests: Mapping[int, Request], now_s: float) -> Iterator[Ready]:
    """Yield what waits for an engine, in the order in which it would be sent."""
    row_s = lane.row_s or 0.0
    start_s = now_s + lane.port.credits.used * row_s
    for pending in by_bucket(tuple(lane.scheduler.pending.values())):
        ready = _ready(lane, requests[pending.request_id], pending, start_s)
        if ready is not None:
            start_s += ready.cost_s or 0.0
            yield ready


def _ready(lane: Lane, request: Request, pending: Pending, start_s: float) -> Ready | None:
    run = request.runs.get(pending.primitive)
    if run is None or run.payload is None:
        return None  # a question whose prompt goes first
    primitive = run.primitive
    return Ready(
        identity=Identity(
            request.id,
            primitive.node,
            pending.depth,
            request.tenant,
            Priority(pending.priority),
            request.first_request,
        ),
        primitive=pending.primitive,
        engine=lane.port.name,
        rows=pending.rows,
        payload=run.payload,
        cost_s=_cost_s(lane, run.payload, pending.rows),
        start_s=start_s,
        is_untouched=run.sent_s < 0 and not run.is_growing,
        may_approximate=request.optimizations is Optimizations.APPROX,
    )


def _cost_s(lane: Lane, payload: Payload, rows: int) -> float | None:
    """Return how long an engine should take for rows of a payload [s]; None = not known yet.

    A prompt costs by its tokens, its decode and all else by what a row has taken lately.
    """
    if lane.row_s is None:
        return None
    costs = None if lane.last is None else lane.last.costs
    if isinstance(payload, IngestPayload):
        return payload.rows * lane.row_s  # it takes one credit, however many they are
    if not isinstance(payload, PrefillPayload) or costs is None:
        return rows * lane.row_s
    tokens = float(token_count(payload))
    prompt = {"call": 1.0, "prefill_tokens": tokens, "context_tokens": tokens}
    return costs.predict_s(prompt) + (rows - 1) * lane.row_s
