"""What real requests made the engines do, read from the record of a run of `workflows`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heddle.core.errors import InputError

CHUNK: Final = "chunk"
SLOT: Final = "slot"
TEXT: Final = "text"
ANSWER: Final = "answer"  # the last node of every workflow
TOPK: Final = 5  # of every search but recomp's
CHANGES_TRIED: Final = range(0, 101, 5)


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """A prompt of a node: its pieces between the template's head and tail, and what came of it.

    Each piece is a text of the workflow, a slot's or a passage, with its tokens; `around` are the
    tokens of head and tail. `written` tokens were generated.
    """

    node: str
    pieces: tuple[tuple[str, int], ...]
    around: int
    written: int

    @property
    def passages(self) -> int:
        """Passages that it shows."""
        return sum(role == CHUNK for role, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request: its workflow, its prompts, and the queries of each of its retrievals, in order."""

    workflow: str
    prompts: tuple[RecordedPrompt, ...]
    queries: tuple[int, ...]

    @property
    def question_tokens(self) -> int:
        """Tokens of the question, the last piece of each prompt."""
        return self.prompts[0].pieces[-1][1]

    def other_share(self) -> int:
        """Return which share of its hits differs from query to query, at best [%].

        From how many passages its prompts show: each of its queries finds some that the others
        have found as well.
        """
        queries = sum(self.queries)
        if queries < 2:
            return 0
        shown = max(prompt.passages for prompt in self.prompts)
        return min(CHANGES_TRIED, key=lambda share: abs(_found(queries, share / 100) - shown))


def _found(queries: int, share: float) -> float:
    """Return how many passages queries find together, where each differs in a share of its hits."""
    return TOPK * (1 - share**queries + queries * share)


def recorded_requests(record: Mapping[str, Any], where: str) -> tuple[RecordedRequest, ...]:
    """Read the requests of a corpus's record, but for those whose answers were written ahead.

    A guess is not recorded, so an answer that was written behind one has no prompt.

    Raises:
        InputError: the record is not one of `heddle bench workflows`; the message names `where`.
    """
    try:
        every = [_request(one["workflow"], one["calls"]) for one in record["requests"]]
        return tuple(one for one in every if any(p.node == ANSWER for p in one.prompts))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: the recorded requests can't be read ({error!r}): write the file again with "
            "`heddle bench workflows --json FILE`"
        ) from error


def passage_lengths(requests: Sequence[RecordedRequest]) -> tuple[int, ...]:
    """Return the lengths of all passages that were shown, in order of size [tokens]."""
    pieces = (piece for one in requests for prompt in one.prompts for piece in prompt.pieces)
    return tuple(sorted(tokens for role, tokens in pieces if role == CHUNK))


def _request(workflow: str, calls: Sequence[Mapping[str, Any]]) -> RecordedRequest:
    prompts: list[RecordedPrompt] = []
    queries: list[int] = []
    is_searching = False  # rows of one retrieval may have been sent in several calls
    for call in calls:
        if "segments" in call:
            prompts.append(_prompt(call))
            is_searching = False
        elif "tokens" not in call:  # an embedding has them
            if is_searching:
                queries[-1] += int(call["rows"])
            else:
                queries.append(int(call["rows"]))
            is_searching = True
    return RecordedRequest(workflow, tuple(prompts), tuple(queries))


def _prompt(call: Mapping[str, Any]) -> RecordedPrompt:
    (_, head), *between, (_, tail) = call["segments"]
    pieces: list[tuple[str, int]] = []
    for role, tokens in between:
        # Prompts begin with a text of the workflow; texts and values take turns.
        is_value = bool(pieces) and pieces[-1][0] == TEXT and role != CHUNK
        pieces.append((SLOT if is_value else str(role), int(tokens)))
    return RecordedPrompt(str(call["node"]), tuple(pieces), head + tail, int(call["written"]))
