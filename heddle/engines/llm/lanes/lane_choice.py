"""Which lane computes a prompt: where least would wait for it. (Teola §5)"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from heddle.core.payloads import Payload, PrefillPayload

BLOCK_TOKENS: Final = 64  # beginnings of prompts are compared in blocks of this size
BEGINNINGS_MAX: Final = 8_192  # of each lane, the newest
REQUESTS_MAX: Final = 4_096


@dataclass(slots=True)
class _Lane:
    """The tokens that a lane holds for prompts and answers, and the parts of prompts it knows."""

    held: int = 0
    seen: OrderedDict[object, None] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class LaneChoice:
    """Chooses a lane for each prompt, by the tokens that it holds and those it need not compute.

    A lane's wait is counted in tokens: those that its prompts and answers may take up, and those
    of the new prompt that it has not seen. It has seen the beginnings of prompts that it was given
    in whole blocks and, where a prompt may reuse them, chunks; and everything of a request whose
    earlier prompt or question it was given. So a request, and what has a beginning in common, stays
    where it is for as long as another lane wouldn't be done sooner. Of equal lanes they take turns.

    What a lane has really kept is its own affair: these are guesses, and a wrong one costs time.

    Args:
        count: how many lanes there are.

    Mutates: every method.
    """

    count: int
    _lanes: list[_Lane] = field(init=False)
    _holds: dict[int, tuple[int, int]] = field(default_factory=dict)
    _requests: OrderedDict[int, tuple[int, bool]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._lanes = [_Lane() for _ in range(self.count)]

    def choose(self, prompt: Payload, request_id: int, able: Sequence[int]) -> int:
        """Return one of the lanes that can work, and note that it has seen the prompt.

        A lane at which the request has failed is left out where there is another.
        """
        known, has_failed = self._requests.get(request_id, (-1, False))
        lanes = [n for n in able if n != known or not has_failed] or able
        first = request_id % len(lanes)
        tokens, parts = _tokens(prompt), list(_parts(prompt))

        def wait(n: int) -> int:
            lane = self._lanes[n]
            seen = tokens if n == known else min(tokens, _seen(lane, parts))
            return lane.held + tokens - seen

        chosen = min([*lanes[first:], *lanes[:first]], key=wait)
        self._note(chosen, request_id, parts)
        return chosen

    def hold(self, prefill_task: int, lane: int, tokens: int) -> None:
        """Note that a lane holds `tokens` more for a prompt and its answer."""
        _, held = self._holds.get(prefill_task, (lane, 0))
        self._holds[prefill_task] = lane, held + tokens
        self._lanes[lane].held += tokens

    def let_go(self, prefill_task: int) -> None:
        """Note that a lane holds nothing for a prompt any more."""
        lane, tokens = self._holds.pop(prefill_task, (0, 0))
        self._lanes[lane].held -= tokens

    def fail(self, request_id: int) -> None:
        """Note that a request's newest prompt, or its answer, has failed where it was."""
        known = self._requests.get(request_id)
        if known is not None:
            self._requests[request_id] = known[0], True

    def _note(self, lane: int, request_id: int, parts: Sequence[tuple[object, int]]) -> None:
        seen = self._lanes[lane].seen
        for name, _ in parts:
            seen[name] = None
            seen.move_to_end(name)
        _trim(seen, BEGINNINGS_MAX)
        self._requests[request_id] = lane, False
        self._requests.move_to_end(request_id)
        _trim(self._requests, REQUESTS_MAX)


def _tokens(prompt: Payload) -> int:
    return len(prompt.token_ids) if isinstance(prompt, PrefillPayload) else 0


def _parts(prompt: Payload) -> Iterator[tuple[object, int]]:
    """Yield what a lane may know of a prompt, by name, and for how many tokens that stands."""
    if not isinstance(prompt, PrefillPayload):
        return
    ids, salt = prompt.token_ids, prompt.cache_salt
    digest = 0
    for start in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        digest = hash((digest, ids[start : start + BLOCK_TOKENS]))
        yield (salt, digest), BLOCK_TOKENS
    if prompt.reuse.is_approximate:
        for segment in prompt.segments:
            if segment.chunk_id is not None and segment.token_ids is not None:
                yield (salt, "chunk", segment.chunk_id), len(segment.token_ids)


def _seen(lane: _Lane, parts: Sequence[tuple[object, int]]) -> int:
    """Return how many tokens of a prompt a lane knows; some of them may count twice."""
    return sum(tokens for name, tokens in parts if name in lane.seen)


def _trim(known: OrderedDict[object, None] | OrderedDict[int, tuple[int, bool]], size: int) -> None:
    while len(known) > size:
        known.popitem(last=False)
