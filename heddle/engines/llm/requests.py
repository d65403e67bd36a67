"""What a caller may ask for: sampling that can be carried out, and changes to a prompt."""

import math
from dataclasses import replace

from heddle.core.commands import Amend, AmendMode
from heddle.core.payloads import DecodePayload, Pause, Sampling, Segment


def refusal(payload: DecodePayload, prompt_tokens: int) -> str | None:
    """Return why a decode can't be carried out, or None.

    `prompt_tokens` are the known tokens of its prompt, 0 while a part of it is pending.
    """
    if payload.continues > prompt_tokens:
        return f"continues is {payload.continues}; {prompt_tokens} tokens of the prompt are known"
    if not 0 <= payload.resumes <= payload.continues:
        return f"resumes is {payload.resumes}; it must be in [0, {payload.continues}] (continues)"
    return _sampling_refusal(payload.sampling) or _pause_refusal(payload.pause)


def _pause_refusal(pause: Pause) -> str | None:
    if pause.after is not None and pause.after < 1:
        return f"pause.after is {pause.after}; it must be at least 1"
    if pause.below is not None and not 0.0 < pause.below < 1.0:
        return f"pause.below is {pause.below}; it must be in (0, 1)"
    return None


def _sampling_refusal(sampling: Sampling) -> str | None:
    if sampling.max_tokens < 1:
        return f"max_tokens is {sampling.max_tokens}; it must be at least 1"
    if not 0.0 <= sampling.temperature < math.inf:
        return f"temperature is {sampling.temperature}; it must be 0 (greedy) or above"
    if not 0.0 < sampling.top_p <= 1.0:
        return f"top_p is {sampling.top_p}; it must be in (0, 1]"
    if sampling.top_k < 0:
        return f"top_k is {sampling.top_k}; it must be 0 (off) or above"
    if not all(sampling.stop):
        return "stop holds an empty string; leave it out"
    if not 0 <= sampling.seed < 2**64:
        return f"seed is {sampling.seed}; it must be in [0, 2**64)"
    return None


def change_segment(segments: list[Segment], command: Amend) -> str | None:
    """Apply an Amend to a prompt's segments; return what is wrong with it, or None."""
    if command.mode is AmendMode.APPEND:
        segments.append(Segment(command.token_ids))
        return None
    index = command.segment_index
    if not 0 <= index < len(segments):
        return f"segment {index} does not exist: the prompt has {len(segments)}"
    old = segments[index]
    if command.mode is AmendMode.FILL and not old.is_pending:
        return f"segment {index} is filled already; amend it with REPLACE"
    segments[index] = replace(old, token_ids=command.token_ids)
    return None
