"""Where a reader ought to look: attention that training shows to a few heads.

A world's writer knows where each fact stands and whose it is, so the way from a question to its
answer need not be found by chance: some heads are told which tokens to look at, and the loss on
replies does the rest. At the answer's first token a head looks at the words of the answer, at a
value's tokens a head looks at the name of the subject the value belongs to.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from .notes import Notes
from .questions import Kind, Question
from .world import Fact, Subject

Ids = list[int]
Encode = Callable[[str], Ids]


class Role(StrEnum):
    """What a shown head looks for.

    owner: from a value, the name of its subject.
    asked: from the end of a question, the name in it.
    bridge: from the end of a two-hop question, the value that the first hop leads to.
    compared: from the end of a comparison, the two amounts.
    source: from before a token of the answer, that token in the notes.
    """

    OWNER = "owner"
    ASKED = "asked"
    BRIDGE = "bridge"
    COMPARED = "compared"
    SOURCE = "source"


NAMING = ((2, 0), (2, 1), (3, 0))  # what they carry has to tell subjects apart
HEADS: dict[Role, tuple[tuple[int, int], ...]] = {  # (layer, head)
    Role.OWNER: NAMING,
    Role.ASKED: NAMING,
    Role.BRIDGE: ((3, 1),),
    Role.COMPARED: ((4, 2),),
    Role.SOURCE: ((4, 0), (4, 1), (5, 0), (5, 1)),
}


@dataclass(frozen=True, slots=True)
class Look:
    """From token `at`, the attention of the role's heads belongs to the groups `to`, evenly.

    A group holds the places where the same token of a name or value is written. who: which
    subject of the world the name is of.
    """

    role: Role
    at: int
    to: tuple[tuple[int, ...], ...]
    who: int = -1


@dataclass(frozen=True, slots=True)
class _Place:
    """Token ranges: each time a fact's value is written, and what tells whose it is.

    owner: the places of the owner's name, and of what it is called instead.
    """

    values: tuple[range, ...]
    owner: tuple[tuple[range, ...], ...]
    who: int


def _found(ids: Ids, wanted: Ids, start: int, end: int) -> list[range]:
    """Every place of `wanted` in ids[start:end]."""
    if not wanted:
        return []
    size = len(wanted)
    return [
        range(i, i + size)
        for i in range(start, end - size + 1)
        if ids[i] == wanted[0] and ids[i : i + size] == wanted
    ]


def _groups(ranges: Iterable[range]) -> tuple[tuple[int, ...], ...]:
    """The first tokens of every range, the second ones, and so on."""
    return tuple(zip(*ranges, strict=True))


def _name_tokens(name: str, encode: Encode) -> Ids:
    """A name without its article, which is written with a capital at the start of a sentence."""
    return encode(name.removeprefix("the ").removeprefix("The "))


def _places(notes: Notes, ids: Ids, end: int, encode: Encode) -> dict[tuple[Subject, Fact], _Place]:
    """Where the facts of the notes stand in ids[:end]."""
    places = {}
    opened: dict[Subject, list[range]] = {}
    cursor = 0
    for passage in notes.passages:
        title = _found(ids, encode(f"## {passage.title}\n"), cursor, end)
        if not title:
            return {}  # the step shows no notes
        subject = passage.subject
        name = _name_tokens(subject.name, encode)
        named = opened.setdefault(subject, [])
        named.extend(_found(ids, name, title[0].start, title[0].stop))
        called: list[range] = []
        if passage.anonymous:
            called = _found(ids, encode(subject.called), title[0].start, title[0].stop)
            # named in another subject's passage, if at all before
            named.extend([] if named else _found(ids, name, 0, title[0].start))
        cursor = title[0].stop
        for sentence in passage.sentences:
            tokens = encode(sentence)
            start, cursor = cursor, cursor + len(tokens)
            named.extend(_found(ids, name, start, cursor))
            if passage.anonymous:
                called.extend(_found(ids, encode(subject.called), start, cursor))
            for fact in (f for f, s in passage.facts.items() if s == sentence):
                values = tuple(_found(ids, encode(fact.value), start, cursor))
                if values:
                    who = notes.world.index(subject)
                    places[subject, fact] = _Place(values, (tuple(named), tuple(called)), who)
    return places


def _question_looks(
    question: Question,
    asked: range,
    reply: range,
    ids: Ids,
    places: dict[tuple[Subject, Fact], _Place],
    encode: Encode,
) -> Iterable[Look]:
    at = reply.start - 1
    if question.kind is Kind.NOT_IN_NOTES:
        yield Look(Role.SOURCE, at, ((0,),))
        return
    known = [places[step] for step in question.steps if step in places]
    if len(known) != len(question.steps) or not known:
        return
    compares = question.kind is Kind.COMPARISON
    subjects = [s for s, _ in (question.steps if compares else question.steps[:1])]
    found = [_found(ids, _name_tokens(s.name, encode), asked.start, asked.stop) for s in subjects]
    if all(found):
        found += [_found(ids, encode(s.called), asked.start, asked.stop) for s in subjects]
        who = -1 if compares else known[0].who
        yield Look(Role.ASKED, at, sum((_groups(ranges) for ranges in found), ()), who)
    if compares:
        yield Look(Role.COMPARED, at, sum((_groups(k.values) for k in known), ()))
        return
    if question.kind is Kind.TWO_HOP:
        yield Look(Role.BRIDGE, at, _groups(known[0].values))
    for i, places_of_token in enumerate(_groups(known[-1].values)):
        if i < len(reply) - 1 and ids[places_of_token[0]] == ids[reply[i]]:
            yield Look(Role.SOURCE, at + i, (places_of_token,))


def repeated(there: range, here: int) -> Iterable[Look]:
    """From before each of the tokens repeated from `here` on, that token where it first stands."""
    return [Look(Role.SOURCE, here + i - 1, ((place,),)) for i, place in enumerate(there)]


def looks(
    notes: Notes,
    questions: list[tuple[Question, range, range]],
    ids: Ids,
    encode: Encode,
) -> list[Look]:
    """Every shown look of a chat. questions: with the token ranges of their text and reply."""
    end = questions[0][2].start
    places = _places(notes, ids, end, encode)
    shown = []
    for place in places.values():
        for value in place.values:
            for at in value:
                before = ([r for r in ranges if r.stop <= at] for ranges in place.owner)
                to = sum((_groups(ranges) for ranges in before), ())
                if to:
                    shown.append(Look(Role.OWNER, at, to, place.who))
    for question, asked, reply in questions:
        shown.extend(_question_looks(question, asked, reply, ids, places, encode))
    return shown
