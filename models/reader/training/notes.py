"""Worlds written down as passages, the way documents are cut into chunks.

A document is about one subject. Its first chunk names the subject; a second chunk often says only
"she", "the company" or "they", so that the subject must be read from the chunk before.
"""

import random
from dataclasses import dataclass, field

from .asides import appositive, aside, filler
from .asides import title as made_up_title
from .pairs import partner, state_pair
from .prompts import render_passage
from .world import Fact, Subject, capitalised, mention, state, state_both

_BLANK_TITLES = ("Archive page {i}", "Page {i}", "Notes {i}", "Record {i}", "File {i}", "Sheet {i}")
_NAMED_TITLES = ("{n}", "{n}", "{n}", "About {n}", "{n}: an overview", "Notes on {n}")
_FILLERS = (
    "The weather that year was mild.",
    "Little else is known.",
    "Several letters confirm this.",
    "The rest of the page is torn.",
    "Not everyone agreed at the time.",
    "Old photographs show a crowded street.",
    "A local paper wrote about it.",
    "There are few other records.",
    "Visitors often ask about this.",
    "The story has been told many times.",
    "A short note in the margin adds nothing new.",
    "People still talk about those days.",
    "The winter was long and the roads were bad.",
    "Some of the papers were lost in a fire.",
    "It took many years before anyone noticed.",
    "Neighbours remember it well.",
)


@dataclass(frozen=True, slots=True)
class NotesStyle:
    """How worlds are written down; rates are shares between 0 and 1.

    pronoun_rate: sentences after a name that use a pronoun or a common noun instead of it.
    split_rate: subjects written as two chunks.
    anonymous_rate: second chunks that never name the subject.
    blank_title_rate: documents whose title says nothing about the subject.
    filler_rate: chance of a sentence without a fact after each sentence.
    apart_rate: split documents whose chunks are not neighbours.
    joined_rate: chance that a sentence states the next fact, too.
    aside_rate: chance of a phrase without a fact at the end of a sentence.
    appositive_rate: chance of a phrase without a fact after a name that opens a sentence.
    pair_rate: chance that a value is followed by another one in a wording made for both.
    free_fillers: sentences without a fact are made up instead of taken from a short list.
    free_title_rate: notes whose titles that say nothing are made up instead of numbered.
    """

    pronoun_rate: float = 0.0
    split_rate: float = 0.0
    anonymous_rate: float = 0.8
    blank_title_rate: float = 0.3
    filler_rate: float = 0.05
    apart_rate: float = 0.0
    joined_rate: float = 0.0
    aside_rate: float = 0.0
    appositive_rate: float = 0.0
    pair_rate: float = 0.0
    free_fillers: bool = False
    free_title_rate: float = 0.0


@dataclass(eq=False, slots=True)
class Passage:
    """One chunk of a document, with the facts its sentences state."""

    title: str
    subject: Subject
    sentences: list[str] = field(default_factory=list)
    facts: dict[Fact, str] = field(default_factory=dict)
    anonymous: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def titled(self) -> bool:
        return self.subject.name.lower() in self.title.lower()


@dataclass(frozen=True, slots=True)
class Notes:
    """The passages of one context in reading order, and the world they describe."""

    world: tuple[Subject, ...]
    passages: tuple[Passage, ...]

    def render(self) -> str:
        return "".join(render_passage(p.title, p.text) for p in self.passages)

    def passage_of(self, subject: Subject, fact: Fact) -> Passage:
        return next(p for p in self.passages if p.subject is subject and fact in p.facts)


def _style(first: bool, style: NotesStyle, rng: random.Random) -> str:
    if first or rng.random() >= style.pronoun_rate:
        return "name"
    return rng.choices(("pronoun", "noun", "short"), (7, 2, 1))[0]


def _anonymous_style(subject: Subject, rng: random.Random) -> str:
    return "noun" if subject.kind != "person" and rng.random() < 0.5 else "pronoun"


def _happens(rate: float, rng: random.Random) -> bool:
    """Draws nothing where the rate is 0, so that a new rate leaves older sets as they are."""
    return rate > 0 and rng.random() < rate


def _sentence(
    passage: Passage, waiting: list[Fact], style: NotesStyle, rng: random.Random
) -> tuple[str, list[Fact]]:
    """The next sentence and the facts it states, which are taken from those waiting."""
    subject = passage.subject
    if passage.anonymous:
        how = _anonymous_style(subject, rng)
    else:
        how = _style(not passage.sentences, style, rng)
    fact = waiting.pop(0)
    other = partner(fact, waiting) if _happens(style.pair_rate, rng) else None
    if other is not None and subject.pronoun != "they":
        waiting.remove(other)
        name = mention(subject, how, rng)["S"]
        return state_pair(subject, fact, other, name, rng), [fact, other]
    if waiting and rng.random() < style.joined_rate:
        other = waiting.pop(0)
        return state_both(subject, (fact, other), how, rng), [fact, other]
    return state(subject, fact, how, rng), [fact]


def _write(passage: Passage, facts: list[Fact], style: NotesStyle, rng: random.Random) -> None:
    subject = passage.subject
    waiting = list(facts)
    while waiting:
        sentence, stated = _sentence(passage, waiting, style, rng)
        opening = f"{capitalised(subject.name)} "
        if sentence.startswith(opening) and _happens(style.appositive_rate, rng):
            phrase = appositive(subject.kind == "person", rng)
            sentence = f"{opening[:-1]}, {phrase}, {sentence[len(opening) :]}"
        if rng.random() < style.aside_rate:
            sentence = f"{sentence[:-1]}{aside(rng)}."
        passage.sentences.append(sentence)
        passage.facts.update(dict.fromkeys(stated, sentence))
        if rng.random() < style.filler_rate:
            passage.sentences.append(filler(rng) if style.free_fillers else rng.choice(_FILLERS))


def _titles(n_titles: int, style: NotesStyle, rng: random.Random) -> list[str]:
    """Titles that say nothing about who a document is about, all different."""
    if _happens(style.free_title_rate, rng):
        drawn: dict[str, None] = {}
        while len(drawn) < n_titles:
            drawn[made_up_title(rng)] = None
        return list(drawn)
    pattern = rng.choice(_BLANK_TITLES)
    return [pattern.format(i=i) for i in rng.sample(range(1, 100), n_titles)]


def write_document(
    subject: Subject, blank_title: str, style: NotesStyle, rng: random.Random
) -> list[Passage]:
    """The one or two chunks that state the subject's facts."""
    blank = rng.random() < style.blank_title_rate
    title = capitalised(rng.choice(_NAMED_TITLES).format(n=subject.name))
    title = blank_title if blank else title
    facts = list(subject.facts)
    rng.shuffle(facts)
    if len(facts) < 2 or rng.random() >= style.split_rate:
        parts = [facts]
    else:
        cut = rng.randint(1, len(facts) - 1)
        parts = [facts[:cut], facts[cut:]]
    passages: list[Passage] = []
    for part in parts:
        anonymous = bool(passages) and rng.random() < style.anonymous_rate
        passage = Passage(title, subject, anonymous=anonymous)
        _write(passage, part, style, rng)
        passages.append(passage)
    return passages


def write_notes(world: list[Subject], style: NotesStyle, rng: random.Random) -> Notes:
    """Every subject of the world as a document, documents in random order."""
    titles = _titles(len(world), style, rng)
    documents = [write_document(s, t, style, rng) for s, t in zip(world, titles, strict=True)]
    rng.shuffle(documents)
    late: list[Passage] = []
    passages: list[Passage] = []
    for document in documents:
        if len(document) > 1 and rng.random() < style.apart_rate:
            passages.append(document[0])
            late.extend(document[1:])
        else:
            passages.extend(document)
    return Notes(tuple(world), tuple(passages + late))
