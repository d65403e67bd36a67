"""Texts that no model has to write: of a prompt that comes again, or of one with nothing in it.

And texts of a loop's earlier turns, as drafts of those that come again.
"""

from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.results import FinishReason, Generated
from heddle.graph.primitive import DecodeConfig, PrefillConfig
from heddle.runtime.request import PrimitiveRun, Request, Writing
from heddle.runtime.values import as_text, is_empty, prompt_parts


def remember(request: Request, decode: PrimitiveRun, result: Generated) -> None:
    """Keep what a node has written until it writes again.

    Another server's text isn't kept: equal prompts may well give different ones there.

    Mutates: `writings` of the request, the texts of its run.
    """
    prompt = None if decode.prefill is None else decode.prefill.payload
    if result.remote is not None or not isinstance(prompt, PrefillPayload):
        return
    assert isinstance(decode.payload, DecodePayload), f"{decode.primitive.name!r} has no decode"
    sampling = decode.payload.sampling
    writing = Writing(prompt.segments, prompt.reuse, sampling, result)
    request.writings[decode.primitive.node] = writing
    if request.run_texts is not None and request.caller is not None:
        request.run_texts.note(request.caller.node, result.token_ids)


def stand_in(request: Request, prefill: PrimitiveRun) -> Generated | None:
    """Return the text in the place of a generation's whose needed value is empty, else None."""
    config, store, node = prefill.primitive.config, request.store, prefill.primitive.node
    if not isinstance(config, PrefillConfig) or config.if_empty is None:
        return None
    if not is_empty(config.if_empty.needs, store, node):
        return None
    text = "".join(as_text(part) for part in prompt_parts(config.if_empty.parts, store, node))
    return Generated(text, (), FinishReason.STOP)


def repeated(request: Request, prefill: PrimitiveRun) -> Generated | None:
    """Return what the node has written for this very prompt the last time, None where it hasn't."""
    config, prompt = prefill.primitive.config, prefill.payload
    rider = request.runs.get(prefill.plan.rider or "")
    known = request.writings.get(prefill.primitive.node)
    if known is None or rider is None or not isinstance(config, PrefillConfig):
        return None
    if not config.may_repeat or not isinstance(prompt, PrefillPayload):
        return None
    assert isinstance(rider.primitive.config, DecodeConfig), f"{rider.primitive.name!r} rides"
    asked = prompt.segments, prompt.reuse, rider.primitive.config.sampling
    return known.result if asked == (known.prompt, known.reuse, known.sampling) else None


def draft_of(request: Request, decode: PrimitiveRun) -> tuple[int, ...]:
    """Return a likely text of a generation, or nothing.

    It is that of its node the turn before. Where another program's node calls, in a loop of its
    own, it is what that node has written last in the same run.
    """
    config, known = decode.primitive.config, request.writings.get(decode.primitive.node)
    is_wanted = isinstance(config, DecodeConfig) and config.has_draft
    if is_wanted and known is not None:
        return known.result.token_ids
    if request.run_texts is None or request.caller is None:
        return ()
    return request.run_texts.of(request.caller.node)
