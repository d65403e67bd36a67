"""Ask about the facts of the town, and prove each question sound against the written documents."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from heddle.demo.corpus import (
    STREAM_QUESTION_COUNT,
    DemoDocument,
    DemoQuestion,
    QuestionKind,
)
from tools.demo_corpus import lexicon
from tools.demo_corpus.world import Building, Club, Deck, Event, Firm, Person, World

STREAM_COUNTS = {
    QuestionKind.SINGLE_HOP: 18,
    QuestionKind.TWO_HOP: 12,
    QuestionKind.ACROSS_PASSAGES: 10,
}
EXTRA_COUNTS = {
    QuestionKind.SINGLE_HOP: 18,
    QuestionKind.TWO_HOP: 14,
    QuestionKind.ACROSS_PASSAGES: 8,
}
WORKFLOWS = {
    # Two hops need a second look, so they go to the workflows that search more than once.
    QuestionKind.SINGLE_HOP: ("oneshot", "hyde", "recomp"),
    QuestionKind.TWO_HOP: ("multistep", "multistep", "irg"),
    QuestionKind.ACROSS_PASSAGES: ("irg", "oneshot", "irg", "hyde", "recomp"),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question before its gold passages are looked up and checked."""

    question: str
    answer: str
    kind: QuestionKind
    relation: str
    subject: str
    """The name in the question."""
    bridge: str
    """The name that links two gold passages; the subject itself in one document."""
    titles: tuple[str, ...]
    """Titles of the documents that hold the gold passages, in reading order."""
    in_stream: bool = True
    """False where the second passage cannot be found from the words of the question alone."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph with the title under which it is retrieved."""

    document_id: str
    index: int
    title: str
    text: str

    def mentions(self, words: str) -> bool:
        """Say whether title or text contain `words` exactly."""
        return words in self.text or words in self.title


def passages_of(documents: tuple[DemoDocument, ...]) -> tuple[Passage, ...]:
    """Return every paragraph of the documents, in order."""
    return tuple(
        Passage(document.id, index, document.title, text)
        for document in documents
        for index, text in enumerate(document.paragraphs)
    )


def ask(world: World, documents: tuple[DemoDocument, ...], rng: Random) -> tuple[DemoQuestion, ...]:
    """Return the questions, the demo's stream first. Mutates: `rng`.

    Raises: ValueError: there are too few sound candidates of a kind.
    """
    passages = passages_of(documents)
    sound = [
        (candidate, gold)
        for candidate in candidates(world, rng)
        if (gold := gold_passages(candidate, passages))
    ]
    rng.shuffle(sound)
    taken: set[str] = set()
    stream = _choose(sound, STREAM_COUNTS, taken, for_stream=True)
    extra = _choose(sound, EXTRA_COUNTS, taken, for_stream=False)
    rng.shuffle(stream)
    rng.shuffle(extra)
    if len(stream) != STREAM_QUESTION_COUNT:
        msg = f"the stream needs {STREAM_QUESTION_COUNT} questions, found {len(stream)}"
        raise ValueError(msg)
    return tuple(_numbered(stream + extra))


def candidates(world: World, rng: Random) -> list[Candidate]:
    """Return one candidate for every fact that can be asked for. Mutates: `rng`."""
    decks = {name: Deck(rng, wordings) for name, wordings in lexicon.QUESTIONS.items()}
    return list(_Asker(decks).all(world))


def gold_passages(
    candidate: Candidate, passages: tuple[Passage, ...]
) -> tuple[Passage, ...] | None:
    """Return the passages needed for the answer, or None if the question is not sound.

    Sound means: exactly one passage gives the answer, exactly one more (for the kinds that need
    two) links the subject to it, and no passage alone holds both subject and answer.
    """
    own = [passage for passage in passages if passage.title in candidate.titles]
    if candidate.kind is QuestionKind.SINGLE_HOP:
        both = [p for p in passages if p.mentions(candidate.subject) and candidate.answer in p.text]
        return tuple(both) if len(both) == 1 and both[0] in own else None

    if any(p.mentions(candidate.subject) and candidate.answer in p.text for p in passages):
        return None
    if candidate.bridge != candidate.subject and candidate.bridge in candidate.question:
        return None
    link_title, answer_title = candidate.titles[0], candidate.titles[-1]
    links = [
        p
        for p in own
        if p.title == link_title and p.mentions(candidate.subject) and candidate.bridge in p.text
    ]
    gives = [p for p in own if p.title == answer_title and candidate.answer in p.text]
    if len(links) != 1 or len(gives) != 1 or gives[0].mentions(candidate.subject):
        return None
    return links[0], gives[0]


class _Asker:
    def __init__(self, decks: dict[str, Deck]) -> None:
        self.decks = decks

    def all(self, world: World) -> Iterator[Candidate]:
        for firm in world.firms:
            yield from self._firm(firm)
        for firm in world.veiled_firms:
            yield from self._veiled_firm(firm)
        for person in world.residents:
            yield from self._person(person)
        for title, person in world.veiled_residents:
            yield from self._veiled_person(title, person)
        for building in world.buildings:
            yield from self._building(building)
        for event in world.events:
            yield from self._event(event)
        for club in world.clubs:
            yield from self._club(club)

    def _wording(self, relation: str, name: str) -> str:
        return self.decks[relation].deal().format(name=name).replace(",?", "?")

    def _single(self, relation: str, subject: str, title: str, answer: object) -> Candidate:
        return Candidate(
            question=self._wording(relation, subject),
            answer=str(answer),
            kind=QuestionKind.SINGLE_HOP,
            relation=relation,
            subject=subject,
            bridge=subject,
            titles=(title,),
        )

    def _across(
        self, relation: str, subject: str, title: str, answer: object, *, described: str
    ) -> Candidate:
        return Candidate(
            question=self._wording(relation, described),
            answer=str(answer),
            kind=QuestionKind.ACROSS_PASSAGES,
            relation=relation,
            subject=subject,
            bridge=subject,
            titles=(title,),
        )

    def _two_hop(
        self, relation: str, who: str, subject: str, title: str, person: Person, *, in_stream: bool
    ) -> Candidate:
        return Candidate(
            question=self._wording(relation, who),
            answer=str(_personal(person)[relation]),
            kind=QuestionKind.TWO_HOP,
            relation=relation,
            subject=subject,
            bridge=person.name,
            titles=(title, person.title),
            in_stream=in_stream,
        )

    def _person(self, person: Person) -> Iterator[Candidate]:
        for relation, answer in _personal(person).items():
            yield self._single(relation, person.name, person.title, answer)

    def _veiled_person(self, title: str, person: Person) -> Iterator[Candidate]:
        described = lexicon.VEILED_SUBJECT.format(name=person.name, worker=person.worker)
        for relation in ("street", "pet", "collection"):
            answer = _personal(person)[relation]
            yield self._across(relation, person.name, title, answer, described=described)

    def _firm(self, firm: Firm) -> Iterator[Candidate]:
        for relation, answer in (
            ("firm_founder", firm.founder.name),
            ("firm_founded", firm.founded),
            ("firm_emblem", firm.emblem),
            ("firm_moved", firm.moved),
            ("firm_new_street", firm.new_street),
        ):
            yield self._single(relation, firm.name, firm.title, answer)
        yield from self._person(firm.founder)
        for relation in ("born_village", "born_year", "instrument"):
            who = lexicon.FOUNDER_OF.format(subject=firm.name, worker=firm.founder.worker)
            yield self._two_hop(relation, who, firm.name, firm.title, firm.founder, in_stream=True)
        if firm.successor is None:
            return
        yield self._single("firm_successor", firm.name, firm.title, firm.successor.name)
        yield self._single("firm_passed", firm.name, firm.title, firm.passed)
        yield from self._person(firm.successor)
        who = lexicon.SUCCESSOR_OF.format(subject=firm.name, worker=firm.successor.worker)
        for relation in ("born_village", "born_year", "instrument"):
            yield self._two_hop(
                relation, who, firm.name, firm.title, firm.successor, in_stream=True
            )

    def _veiled_firm(self, firm: Firm) -> Iterator[Candidate]:
        described = lexicon.VEILED_SUBJECT.format(name=firm.name, worker=firm.trade)
        for relation, answer in (
            ("firm_emblem", firm.emblem),
            ("firm_moved", firm.moved),
            ("firm_new_street", firm.new_street),
        ):
            yield self._across(relation, firm.name, firm.title, answer, described=described)
        founder = firm.founder
        described = lexicon.VEILED_SUBJECT.format(name=founder.name, worker=founder.worker)
        personal = _personal(founder)
        for relation in ("born_village", "instrument", "pet"):
            yield self._across(
                relation, founder.name, firm.title, personal[relation], described=described
            )

    def _building(self, building: Building) -> Iterator[Candidate]:
        name = building.lore.name
        for relation, answer in (
            ("building_built", building.built),
            ("building_architect", building.architect),
            ("building_material", building.material),
            ("building_emblem", building.emblem),
        ):
            yield self._single(relation, name, f"The {name}", answer)

    def _event(self, event: Event) -> Iterator[Candidate]:
        name = event.lore.name
        title = f"The {name}"
        yield self._single("event_year", name, title, event.year)
        yield Candidate(
            question=event.lore.deed_question,
            answer=event.person.name,
            kind=QuestionKind.SINGLE_HOP,
            relation="deed",
            subject=name,
            bridge=name,
            titles=(title,),
        )
        deed = event.lore.deed_question.removeprefix("Who ").removesuffix("?")
        who = lexicon.PERSON_OF_EVENT.format(deed=deed)
        for relation in ("born_village", "instrument", "worker"):
            yield self._two_hop(relation, who, name, title, event.person, in_stream=False)

    def _club(self, club: Club) -> Iterator[Candidate]:
        name = club.lore.name
        title = club.lore.title
        for relation, answer in (
            ("club_founder", club.founder.name),
            ("club_founded", club.founded),
            ("club_building", club.building),
        ):
            yield self._single(relation, name, title, answer)
        members = lexicon.MEMBERS_OF.format(members=club.lore.members, name=name)
        yield self._across("club_garment", name, title, club.lore.garment, described=members)
        worker = club.founder.worker
        who = lexicon.FOUNDER_OF.format(subject=f"the {name}", worker=worker)
        for relation in ("born_village", "instrument", "collection"):
            yield self._two_hop(relation, who, name, title, club.founder, in_stream=False)


def _personal(person: Person) -> dict[str, object]:
    return {
        "born_village": person.village,
        "born_year": person.born,
        "instrument": person.instrument,
        "pet": person.pet,
        "collection": person.collection,
        "worker": person.worker,
        "street": person.street,
    }


def _choose(
    sound: list[tuple[Candidate, tuple[Passage, ...]]],
    counts: dict[QuestionKind, int],
    taken: set[str],
    *,
    for_stream: bool,
) -> list[tuple[Candidate, tuple[Passage, ...]]]:
    """Take `counts` questions of each kind, spread over relations, a subject only once.

    Mutates: adds the subjects to `taken`.
    """
    chosen: list[tuple[Candidate, tuple[Passage, ...]]] = []
    for kind, count in counts.items():
        used: dict[str, int] = {}
        for _ in range(count):
            free = [
                entry
                for entry in sound
                if entry[0].kind is kind
                and entry[0].subject not in taken
                and (entry[0].in_stream or not for_stream)
            ]
            if not free:
                msg = f"too few sound questions of the kind {kind}"
                raise ValueError(msg)
            entry = min(free, key=lambda item: used.get(item[0].relation, 0))
            used[entry[0].relation] = used.get(entry[0].relation, 0) + 1
            taken.add(entry[0].subject)
            chosen.append(entry)
    return chosen


def _numbered(
    chosen: list[tuple[Candidate, tuple[Passage, ...]]],
) -> Iterator[DemoQuestion]:
    seen = dict.fromkeys(QuestionKind, 0)
    for number, (candidate, gold) in enumerate(chosen, start=1):
        workflows = WORKFLOWS[candidate.kind]
        yield DemoQuestion(
            id=f"q-{number:02d}",
            question=candidate.question,
            answers=(candidate.answer,),
            gold=tuple((passage.document_id, passage.index) for passage in gold),
            kind=candidate.kind,
            workflow=workflows[seen[candidate.kind] % len(workflows)],
        )
        seen[candidate.kind] += 1
