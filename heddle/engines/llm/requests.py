"""What a caller may ask for: sampling that can be carried out, and changes to a prompt."""

import math

from heddle.core.commands import Amend, AmendMode
from heddle.core.payloads import Sampling, Segment


def refusal(sampling: Sampling) -> str | None:
    """Return why a sampling can't be carried out, or None."""
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
    segments[index] = Segment(command.token_ids, old.role, old.chunk_id)
    return None
