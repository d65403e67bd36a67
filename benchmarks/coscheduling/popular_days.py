"""Two days of questions whose popularity, and what they have in common, are a real trace's.

RAGPulse has no text: a request has ids, of its question and of the passages that it retrieved.
Requests with one first passage ask about one thing, in many words. A thing stands for enough
passages of ours, neighbours in one article, to have a question of ours for each of its questions.
So two days have as many questions in common as in the trace. One passage there is several here:
both days read fewer of the same passages than in the trace, never more.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

DAY_S: Final = 86_400.0
TRACE: Final = "trace_ragpulse"
Question = tuple[str, str]
"""The passage that answers it, and its text."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the trace: its day, its first passage, and its question, as ids."""

    day: int
    thing: int
    question: int


@dataclass(frozen=True, slots=True)
class Days:
    """Questions of a day and of the one before, in the order in which they were asked.

    Args:
        before: the earlier day's.
        asked: the later day's.
        passages_seen: share of the later day's requests about a passage of the earlier day's.
        passages_seen_there: the same share in the trace.
        questions_seen: share of the later day's requests that the earlier day has word for word.
        questions_seen_there: the same share in the trace.
    """

    before: tuple[str, ...]
    asked: tuple[str, ...]
    passages_seen: float
    passages_seen_there: float
    questions_seen: float
    questions_seen_there: float


def requests_of(rows: Iterable[Mapping[str, Any]]) -> list[Request]:
    """Return the requests of the trace that retrieved something."""
    return [
        Request(int(row["t"] // DAY_S), row["passages"][0][0], row["user"][0][0])
        for row in rows
        if row["passages"] and row["user"]
    ]


def popular_days(
    requests: Sequence[Request],
    questions: Mapping[str, Sequence[str]],
    seed: int,
    day: int = 1,
) -> Days:
    """Return the questions of a day and of the one before.

    Args:
        requests: of the trace.
        questions: what is asked about each passage of ours, neighbours one behind the other. If
            they are fewer than the trace's, they are asked again.
        seed: of which passages stand for which things.
        day: the later day.
    """
    days = [[one for one in requests if one.day == number] for number in (day - 1, day)]
    there = [[(one.thing, one.question) for one in asked] for asked in days]
    here = _stand_ins(there[0] + there[1], questions, seed)
    before, asked = ([here[pair] for pair in pairs] for pairs in there)
    return Days(
        tuple(text for _, text in before),
        tuple(text for _, text in asked),
        _seen([passage for passage, _ in before], [passage for passage, _ in asked]),
        _seen([thing for thing, _ in there[0]], [thing for thing, _ in there[1]]),
        _seen(before, asked),
        _seen(there[0], there[1]),
    )


def _stand_ins(
    pairs: Sequence[tuple[int, int]], questions: Mapping[str, Sequence[str]], seed: int
) -> dict[tuple[int, int], Question]:
    """Return a question of ours for each of the trace's, those about one thing side by side."""
    wanted = Counter(thing for thing, _ in dict.fromkeys(pairs))
    draws = random.Random(seed)
    many = _from_anywhere([p for p in questions if len(questions[p]) > 1], draws)
    one = _from_anywhere([p for p in questions if len(questions[p]) == 1], draws)
    pools = [[(p, text) for p in passages for text in questions[p]] for passages in (many, one)]
    given = [0, 0]
    texts: dict[int, list[Question]] = {}
    for thing, count in wanted.most_common():
        # A thing that one question is about needs no passage that several are about.
        kind = 0 if (count > 1 and pools[0]) or not pools[1] else 1
        pool, first = pools[kind], given[kind]
        texts[thing] = [pool[place % len(pool)] for place in range(first, first + count)]
        given[kind] += count
    return {pair: texts[pair[0]].pop() for pair in dict.fromkeys(pairs)}


def _from_anywhere(passages: list[str], draws: random.Random) -> list[str]:
    """Return passages in their order, begun at a drawn one."""
    first = draws.randrange(len(passages)) if passages else 0
    return passages[first:] + passages[:first]


def _seen(earlier: Sequence[object], later: Sequence[object]) -> float:
    known = set(earlier)
    return sum(one in known for one in later) / max(1, len(later))
