"""From a request whose primitives are all complete to its answer."""

from collections.abc import Mapping

from heddle.core.passages import Passage
from heddle.core.quotations import Quotations
from heddle.graph.primitive import Primitive
from heddle.runtime.events import Answer
from heddle.runtime.kept_answer import KeptAnswer
from heddle.runtime.receipt import Receipt
from heddle.runtime.request import Request
from heddle.runtime.values import as_passages, as_text, unique_passages
from heddle.workflow.template import DOCUMENTS


def build_answer(request: Request, numerics: str, now_s: float) -> Answer:
    """Return what a request found, with its receipt."""
    slots = {slot: request.store.get(key) for slot, key in request.scope.keys}
    receipt = request.receipt.close(request.optimizations, now_s - request.arrival_s, numerics)
    if request.kept is not None:
        return _again(request.kept, slots, receipt)
    last, written = _last(request)
    if isinstance(written, Quotations):
        found, nearest = written.found, written.nearest
        return Answer(str(written), written.passages, slots, receipt, found, nearest)
    if passages := as_passages(written):
        return Answer("", passages, slots, receipt)
    end = None if last is None else request.receipt.ends.get(last.node)
    passages = _passages(request, last, slots)
    return Answer(as_text(written), passages, slots, receipt, finish_reason=end)


def _again(kept: KeptAnswer, slots: Mapping[str, object], receipt: Receipt) -> Answer:
    """Return an answer that was kept, with the receipt of the request that it is given to now."""
    return Answer(
        kept.text,
        kept.passages,
        {**kept.slots, **slots},
        receipt,
        kept.quotes,
        kept.nearest,
        kept.finish_reason,
    )


def _last(request: Request) -> tuple[Primitive | None, object]:
    """Return what wrote the answer, and the answer."""
    key, text = request.returned_key, request.returned_text
    if key is not None:
        return request.authors.get(key), request.store.get(key)
    if text is not None:
        return None, text
    return request.last, request.store.get(request.last.writes[0]) if request.last else ""


def _passages(
    request: Request, last: Primitive | None, slots: Mapping[str, object]
) -> tuple[Passage, ...]:
    """Return what an answer rests on: what its own prompt showed, else any prompt, else slots."""
    own: tuple[Passage, ...] = ()
    if last is not None:
        own = request.shown_for.get(last.writes[0], request.shown.get(last.node, ()))
    if own:
        return own
    shown = [request.shown.get(str(node), ()) for node in request.workflow.nodes]
    found = (value for slot, value in slots.items() if slot != DOCUMENTS)
    return unique_passages(shown if any(shown) else map(as_passages, found))
