"""The timeline of one request: its stages, the prompts that ran ahead, and the critical path."""

from collections.abc import Iterator, Sequence

from heddle.core.primitives import PrimitiveKind
from heddle.exporters.critical_path import critical_path
from heddle.exporters.stage_times import StageTime, stage_times
from heddle.runtime.receipt import Receipt


def timeline_json(receipt: Receipt) -> dict[str, object]:
    """Return a request's timeline; all times count from its arrival [s].

    A stage is ready at `ready_s`, is sent to its engine at `sent_s`, has all its inputs from
    `begun_s` and its result is back at `done_s`. `ahead` has the prompts that were computed while
    their search still ran. Parts of `path` and `rest_s` add up to `latency_s`.
    """
    times = stage_times(receipt.spans)
    path = critical_path(times, receipt.latency_s)
    on_path = {id(part.stage.span) for part in path.parts}
    return {
        "latency_s": receipt.latency_s,
        "stages": [_stage(time, is_on_path=id(time.span) in on_path) for time in times],
        "ahead": list(_ahead(receipt, times)),
        "path": [
            {
                "name": part.stage.span.name,
                "between_s": part.between_s,
                "waited_s": part.waited_s,
                "ran_s": part.ran_s,
            }
            for part in path.parts
        ],
        "rest_s": path.rest_s,
    }


def _stage(time: StageTime, *, is_on_path: bool) -> dict[str, object]:
    span = time.span
    return {
        "name": span.name,
        "node": span.node,
        "kind": span.kind.value,
        "engine": span.engine,
        "rows": span.rows,
        "ready_s": span.ready_s,
        "sent_s": span.sent_s,
        "begun_s": time.begun_s,
        "done_s": span.done_s,
        "is_on_path": is_on_path,
    }


def _ahead(receipt: Receipt, times: Sequence[StageTime]) -> Iterator[dict[str, object]]:
    """Yield the prompts that ran ahead; each ended when its node's own prompt was ready."""
    for one in receipt.speculations:
        own = [
            time.span
            for time in times
            if time.span.node == one.node
            and time.span.kind is PrimitiveKind.PREFILLING
            and time.span.name.endswith(f"@{one.turn}")
        ]
        end_s = own[0].ready_s if own else None
        yield {
            "node": one.node,
            "turn": one.turn,
            "engine": own[0].engine if own else "",
            "start_s": None if end_s is None else max(0.0, end_s - one.ahead_s),
            "end_s": end_s,
            "is_adopted": one.is_adopted,
            "probability": one.probability,
            "gain_s": one.gain_s,
            "tokens_prompt": one.tokens_prompt,
            "tokens_wasted": one.tokens_wasted,
        }
