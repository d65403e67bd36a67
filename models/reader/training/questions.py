"""Questions on notes, with gold answers that the notes really hold."""

import random
from dataclasses import dataclass
from enum import StrEnum

from .asides import role
from .fillings import Fillings
from .notes import Notes, Passage
from .prompts import NOT_IN_NOTES
from .relations import COMPARISONS, GENERIC_QUESTIONS
from .world import RELATIONS_OF, Fact, Subject


_VEILED_DESCRIBED_RATE = 0.8  # questions that say who is meant, where the answer's passage doesn't


class Kind(StrEnum):
    SINGLE_HOP = "single_hop"
    TWO_HOP = "two_hop"
    COMPARISON = "comparison"
    COREFERENCE = "coreference"
    NOT_IN_NOTES = "not_in_notes"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its gold answer, and what a workflow step needs to know about it.

    evidence: the sentences of the notes that the answer rests on, in the order of the hops.
    sub_questions: what would have to be asked first.
    """

    kind: Kind
    text: str
    answer: str
    evidence: tuple[str, ...]
    sub_questions: tuple[str, ...]
    steps: tuple[tuple[Subject, Fact], ...] = ()


def _evidence(notes: Notes, subject: Subject, fact: Fact) -> str:
    return notes.passage_of(subject, fact).facts[fact]


def _kind_of(passage: Passage) -> Kind:
    return Kind.COREFERENCE if passage.anonymous else Kind.SINGLE_HOP


def _role(subject: Subject, rng: random.Random) -> str:
    """What to call the subject in a question: what the notes say of it, or nothing of weight."""
    if subject.called:
        return subject.called
    occupation = subject.fact("occupation")
    return occupation.value if occupation else role(rng)


def _described(subject: Subject, fact: Fact, rng: random.Random) -> tuple[str, ...]:
    """Wordings that add to the name who it is, as in "Where was Ann Lee, the baker, born?"."""
    name = f"{subject.name}, the {_role(subject, rng)},"
    plain = [q for q in fact.relation.questions if "{n}'" not in q]
    return tuple(q.format(n=name).replace(",?", "?") for q in plain)


def ask_fact(
    notes: Notes, subject: Subject, fact: Fact, rng: random.Random, described: bool = False
) -> Question:
    """A question whose answer is one sentence of the notes."""
    passage = notes.passage_of(subject, fact)
    wordings = fact.questions(subject.name)
    if subject.called and passage.anonymous and not passage.titled:
        described = described or rng.random() < _VEILED_DESCRIBED_RATE
    can_be = subject.kind == "person" or bool(subject.called)
    if described and can_be and fact.key != "occupation":
        wordings = _described(subject, fact, rng) or wordings
    text, answer = rng.choice(wordings), fact.value
    inverse = fact.inverse_questions()
    if inverse and rng.random() < 0.15 and _holders(notes, fact) == 1:
        text, answer = rng.choice(inverse), subject.name
    steps = () if answer != fact.value else ((subject, fact),)
    return Question(_kind_of(passage), text, answer, (passage.facts[fact],), (text,), steps)


def _holders(notes: Notes, fact: Fact) -> int:
    return sum(f.value == fact.value for s in notes.world for f in s.facts)


def two_hop_paths(notes: Notes) -> list[tuple[Subject, Fact, Subject]]:
    """Every (subject, fact, subject the fact points at) that a description exists for."""
    return [
        (subject, fact, fact.target)
        for subject in notes.world
        for fact in subject.facts
        if fact.target is not None and fact.relation.descriptors
    ]


def ask_two_hop(notes: Notes, rng: random.Random, described: bool = False) -> Question | None:
    """A question about "the founder of X", whose answer stands in the founder's own passage."""
    paths = two_hop_paths(notes)
    if not paths:
        return None
    subject, first, middle = rng.choice(paths)
    facts = [f for f in middle.facts if f.value != subject.name]
    if not facts:
        return None
    second = rng.choice(facts)
    descriptor = rng.choice(first.relation.descriptors).format(n=subject.name)
    if (described or middle.called) and second.key != "occupation":
        descriptor = descriptor.replace("the person who", f"the {_role(middle, rng)} who", 1)
    text = rng.choice([q for q in second.questions(descriptor) if f"{descriptor}'s" not in q])
    return Question(
        Kind.TWO_HOP,
        text,
        second.value,
        (_evidence(notes, subject, first), _evidence(notes, middle, second)),
        (first.questions(subject.name)[0], text),
        ((subject, first), (middle, second)),
    )


def ask_comparison(notes: Notes, rng: random.Random) -> Question | None:
    """Which of two subjects is older, taller or larger."""
    options = []
    for key, larger, smaller in COMPARISONS:
        holders = [(s, f) for s in notes.world for f in s.facts if f.key == key]
        if len(holders) >= 2:
            options.append((larger, smaller, holders))
    if not options:
        return None
    larger, smaller, holders = rng.choice(options)
    (a, fact_a), (b, fact_b) = rng.sample(holders, 2)
    amount_a, amount_b = (int(f.value.replace(",", "")) for f in (fact_a, fact_b))
    if amount_a == amount_b:
        return None
    wants_larger = rng.random() < 0.5
    text = rng.choice(larger if wants_larger else smaller).format(a=a.name, b=b.name)
    answer = a.name if (amount_a > amount_b) == wants_larger else b.name
    return Question(
        Kind.COMPARISON,
        text,
        answer,
        (_evidence(notes, a, fact_a), _evidence(notes, b, fact_b)),
        (fact_a.questions(a.name)[0], fact_b.questions(b.name)[0]),
        ((a, fact_a), (b, fact_b)),
    )


def ask_absent(notes: Notes, fillings: Fillings, rng: random.Random) -> Question:
    """A question that the notes do not answer: unknown attribute or unknown subject."""
    subject = rng.choice(notes.world)
    known = {f.key for f in subject.facts}
    absent = [r for r in RELATIONS_OF[subject.kind] if r.key not in known]
    name = subject.name
    if rng.random() < 0.35 or not absent:
        absent = list(RELATIONS_OF[subject.kind])
        while any(name == s.name for s in notes.world):
            name = fillings.value(subject.kind)
    if rng.random() < 0.12:
        text = rng.choice(GENERIC_QUESTIONS).format(n=name, k=fillings.word(2, 2).lower())
    else:
        text = rng.choice(rng.choice(absent).questions).format(n=name)
    return Question(Kind.NOT_IN_NOTES, text, NOT_IN_NOTES, (), (text,))


def ask(
    notes: Notes,
    weights: dict[Kind, float],
    n_questions: int,
    fillings: Fillings,
    rng: random.Random,
    described_rate: float = 0.0,
) -> list[Question]:
    """Up to n_questions different questions, of kinds drawn by their weights.

    described_rate: share of the questions that say more of a person than the name.
    """
    facts: dict[Kind, list[tuple[Subject, Fact]]] = {Kind.SINGLE_HOP: [], Kind.COREFERENCE: []}
    for passage in notes.passages:
        facts[_kind_of(passage)].extend((passage.subject, fact) for fact in passage.facts)
    questions: dict[str, Question] = {}
    for kind in rng.choices(list(weights), list(weights.values()), k=n_questions):
        question: Question | None = None
        described = described_rate > 0 and rng.random() < described_rate
        if facts.get(kind):
            subject, fact = rng.choice(facts[kind])
            question = ask_fact(notes, subject, fact, rng, described)
        elif kind is Kind.TWO_HOP:
            question = ask_two_hop(notes, rng, described)
        elif kind is Kind.COMPARISON:
            question = ask_comparison(notes, rng)
        elif kind is Kind.NOT_IN_NOTES:
            question = ask_absent(notes, fillings, rng)
        if question is not None and question.text not in questions:
            questions[question.text] = question
    return list(questions.values())
