"""A small made-up world: subjects, what is true of them, and how each fact is worded."""

import random
from dataclasses import dataclass, field
from functools import cache

from .fillings import Fillings
from .relations import RELATIONS, Relation, generic_relation

SUBJECT_WEIGHTS = {
    "person": 9,
    "org": 4,
    "place": 2,
    "building": 3,
    "event": 2,
    "work": 1,
    "ship": 2,
}
ENTITY_KINDS = frozenset(SUBJECT_WEIGHTS)
RELATIONS_OF = {kind: tuple(r for r in RELATIONS if r.subject == kind) for kind in SUBJECT_WEIGHTS}


@cache
def relations_of(kind: str, wordings: int = 0) -> tuple[Relation, ...]:
    """The relations of a kind of subject, each with so many plain wordings (0: with all)."""
    if wordings == 0:
        return RELATIONS_OF[kind]
    return tuple(r.plain(wordings) for r in RELATIONS_OF[kind])


_NOUNS = {
    "org": ("the organisation", "the company"),
    "place": ("the town", "the place"),
    "building": ("the building",),
    "event": ("the event",),
    "work": ("the book",),
    "ship": ("the ship", "the vessel"),
}
_VERBS_AFTER_THEY = (
    ("was", "were"),
    ("is", "are"),
    ("has", "have"),
    ("makes", "make"),
    ("sells", "sell"),
    ("employs", "employ"),
    ("belongs", "belong"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is true of a subject."""

    relation: Relation
    value: str
    target: "Subject | None" = None

    @property
    def key(self) -> str:
        return self.relation.key

    def questions(self, name: str) -> tuple[str, ...]:
        """Every wording that asks for this fact of `name` (a name or a description)."""
        return tuple(q.format(n=name) for q in self.relation.questions)

    def inverse_questions(self) -> tuple[str, ...]:
        """Every wording that gives the value and asks for the subject."""
        return tuple(
            q.format(v=self.value, av=with_article(self.value)) for q in self.relation.inverse
        )


@dataclass(eq=False, slots=True)
class Subject:
    """A person, organisation, place, building, event, book or ship with its facts.

    called: what notes that don't name it call it, such as "umbrella maker"; often nothing.
    """

    kind: str
    name: str
    pronoun: str
    facts: list[Fact] = field(default_factory=list)
    called: str = ""

    def fact(self, key: str) -> Fact | None:
        return next((f for f in self.facts if f.key == key), None)

    def has_part_of(self, name: str) -> bool:
        return bool(set(self.name.split()) & set(name.split()) - {"the"})


def with_article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def mention(subject: Subject, style: str, rng: random.Random) -> dict[str, str]:
    """Slot fillings for a mention of the subject by `name`, `pronoun`, `noun` or `short` name."""
    name = subject.name
    if style == "pronoun":
        forms = {
            "she": ("she", "her", "her"),
            "he": ("he", "his", "him"),
            "it": ("it", "its", "it"),
            "they": ("they", "their", "them"),
        }
        subjective, possessive, objective = forms[subject.pronoun]
    else:
        if style == "noun" and subject.kind in _NOUNS:
            name = rng.choice(_NOUNS[subject.kind])
        elif style == "short" and subject.kind == "person":
            name = name.split()[-1]
        subjective, possessive, objective = name, f"{name}'s", name
    return {
        "s": subjective,
        "S": capitalised(subjective),
        "p": possessive,
        "P": capitalised(possessive),
        "o": objective,
    }


def state(subject: Subject, fact: Fact, style: str, rng: random.Random) -> str:
    """One sentence that states the fact, naming the subject in the given style."""
    return _worded(subject, rng.choice(fact.relation.statements), fact, style, rng)


def state_both(subject: Subject, facts: tuple[Fact, Fact], style: str, rng: random.Random) -> str:
    """One sentence that states two facts, where their wordings can be joined by "and"."""
    first, second = (
        [s for s in fact.relation.statements if s.startswith("{S} ")] for fact in facts
    )
    if not first or not second or subject.pronoun == "they":
        return " ".join(state(subject, fact, style, rng) for fact in facts)
    opening = _worded(subject, rng.choice(first), facts[0], style, rng)
    rest = _worded(subject, rng.choice(second), facts[1], "name", rng)
    return f"{opening[:-1]} and {rest[len(subject.name) + 1 :]}"


def _worded(subject: Subject, template: str, fact: Fact, style: str, rng: random.Random) -> str:
    slots = mention(subject, style, rng)
    sentence = template.format(v=fact.value, av=with_article(fact.value), **slots)
    if style == "pronoun" and subject.pronoun == "they":
        for singular, plural in _VERBS_AFTER_THEY:
            sentence = sentence.replace(f"hey {singular} ", f"hey {plural} ")
    return capitalised(sentence)


def _draw_name(fillings: Fillings, kind: str, taken: list[Subject], rng: random.Random) -> str:
    """A new name; one in five shares a part with an earlier one, which makes a hard pair."""
    while True:
        name = fillings.value(kind)
        people = [s for s in taken if s.kind == "person"]
        if kind == "person" and people and rng.random() < 0.25:
            other = rng.choice(people).name.split()
            mine = name.split()
            name = f"{other[0]} {mine[-1]}" if rng.random() < 0.5 else f"{mine[0]} {other[-1]}"
        if all(name != s.name for s in taken):
            return name


def _draw_kinds(n_subjects: int, rng: random.Random) -> list[str]:
    kinds, weights = list(SUBJECT_WEIGHTS), list(SUBJECT_WEIGHTS.values())
    if rng.random() < 0.25:  # subjects of one kind only: nothing but the name tells them apart
        return [rng.choices(kinds, weights)[0]] * n_subjects
    return rng.choices(kinds, weights, k=n_subjects)


def _draw_facts(
    subject: Subject,
    world: list[Subject],
    n_facts: int,
    fillings: Fillings,
    rng: random.Random,
    wordings: int,
) -> None:
    relations = list(relations_of(subject.kind, wordings))
    rng.shuffle(relations)
    used = {s.name for s in world}
    for _ in range(n_facts):
        if not relations or rng.random() < 0.15:
            relation = generic_relation(fillings.generic_key(), subject.kind)
            if subject.fact(relation.key) is None:
                plain = relation.plain(wordings) if wordings else relation
                subject.facts.append(Fact(plain, fillings.generic_value()))
            continue
        relation = relations.pop()
        target = None
        if relation.value in ENTITY_KINDS and rng.random() < 0.7:
            others = [s for s in world if s.kind == relation.value and s is not subject]
            target = rng.choice(others) if others else None
        value = target.name if target else fillings.value(relation.value)
        if target is None and value in used:
            continue
        if any(value == f.value for f in subject.facts):
            continue
        subject.facts.append(Fact(relation, value, target))


def draw_world(
    rng: random.Random,
    fillings: Fillings,
    n_subjects: int,
    facts_low: int,
    facts_high: int,
    wordings: int = 0,
) -> list[Subject]:
    """Subjects with facts, some of which point at one another (what two-hop questions need)."""
    world: list[Subject] = []
    for kind in _draw_kinds(n_subjects, rng):
        if kind == "person":
            pronoun = rng.choice(("she", "he"))
        else:
            pronoun = rng.choice(("it", "it", "they")) if kind == "org" else "it"
        world.append(Subject(kind, _draw_name(fillings, kind, world, rng), pronoun))
    for subject in world:
        _draw_facts(subject, world, rng.randint(facts_low, facts_high), fillings, rng, wordings)
    return [s for s in world if s.facts]
