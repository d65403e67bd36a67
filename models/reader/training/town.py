"""Notes worded as the demo's town is, about other people, firms and places.

The sentences and questions are the demo's own patterns (`tools.demo_corpus.lexicon`), so the demo shows
what the reader does with wordings it knows; the names are the training's. The second passage of a
document never names its subject, and passages stand in any order, as after a search.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from tools.demo_corpus.lexicon import (
    FOUNDER_OF,
    MEMBERS_OF,
    PERSON_TITLE,
    QUESTIONS,
    SUCCESSOR_OF,
    TEMPLATES,
)

from .asides import filler, noun, place_phrase, thing, title
from .fillings import Fillings
from .notes import Notes, Passage
from .relations import RELATIONS, Relation
from .world import Fact, Subject, capitalised, with_article

# The training's relations, and the demo's questions that ask for them.
_ASKED = {
    ("person", "born_in"): "born_village",
    ("person", "birth_year"): "born_year",
    ("person", "instrument"): "instrument",
    ("person", "street"): "street",
    ("person", "pet"): "pet",
    ("person", "collection"): "collection",
    ("person", "occupation"): "worker",
    ("org", "founder"): "firm_founder",
    ("org", "founded"): "firm_founded",
    ("org", "new_owner"): "firm_successor",
    ("org", "sold_in"): "firm_passed",
    ("org", "emblem"): "firm_emblem",
    ("org", "moved_in"): "firm_moved",
    ("org", "moved_to"): "firm_new_street",
    ("org", "meets_in"): "club_building",
    ("org", "garment"): "club_garment",
    ("building", "built"): "building_built",
    ("building", "architect"): "building_architect",
    ("building", "material"): "building_material",
    ("building", "weathervane"): "building_emblem",
}
_DESCRIBED = {"founder": FOUNDER_OF, "new_owner": SUCCESSOR_OF}
_TRADES = ("brewery", "factory", "foundry", "mill", "press", "shop", "works", "workshop", "yard")
_WORKERS = ("dealer", "engineer", "keeper", "maker", "merchant", "painter", "seller", "warden")
_MEMBERS = (
    "collectors",
    "dancers",
    "divers",
    "fencers",
    "gardeners",
    "knitters",
    "poets",
    "readers",
)
_COUNTS = ("twelve", "twenty", "fifty-one", "seventy", "ninety-eight")
_WRITER_WEIGHTS = (5, 4, 1, 1)
_ALIKE_RATE = 0.4  # notes of one kind of document only, as a search finds them
_LOST_RATE = 0.4  # passages that the search did not find
_LONG_NAME_RATE = 0.6
_LONG_VALUE_RATE = 0.6
_VEILED_RATE = 0.5  # documents whose title doesn't name the subject


def _relation(kind: str, key: str) -> Relation:
    known = next(r for r in RELATIONS if (r.subject, r.key) == (kind, key))
    wordings = (q.replace("the {name}", "{name}") for q in QUESTIONS[_ASKED[kind, key]])
    asked = tuple(q.format(name="{n}") for q in wordings)
    described = _DESCRIBED.get(key)
    return replace(
        known,
        questions=asked,
        descriptors=(described.format(worker="person", subject="{n}"),) if described else (),
        inverse=(),
    )


_RELATIONS = {(kind, key): _relation(kind, key) for kind, key in _ASKED}


class _Town:
    """Draws subjects and writes them down. Mutates the generator it is given."""

    def __init__(self, fillings: Fillings, rng: random.Random) -> None:
        self._fillings, self._rng = fillings, rng
        self.world: list[Subject] = []
        self.passages: list[Passage] = []

    def draw(self, n_documents: int) -> Notes:
        writers = [self._person, self._firm, self._building, self._club]
        if self._rng.random() < _ALIKE_RATE:
            writers = [self._rng.choice(writers[:2])]
        for write in self._rng.choices(writers, _WRITER_WEIGHTS[: len(writers)], k=n_documents):
            write()
        kept = [p for p in self.passages if self._rng.random() >= _LOST_RATE] or self.passages
        self._rng.shuffle(kept)
        for passage in kept:
            if not passage.titled and not any(passage.subject.name in p.text for p in kept):
                passage.facts.clear()  # nothing tells whose they are
        stated = {(p.subject, fact) for p in kept for fact in p.facts}
        for subject in self.world:
            subject.facts = [f for f in subject.facts if (subject, f) in stated]
        return Notes(tuple(s for s in self.world if s.facts), tuple(kept))

    def _subject(self, kind: str, called: str, pronoun: str) -> Subject:
        taken = {s.name for s in self.world}
        while (name := self._filling(kind)) in taken:
            pass
        subject = Subject(kind, name, pronoun, called=called)
        self.world.append(subject)
        return subject

    def _filling(self, kind: str) -> str:
        if kind == "person" and self._rng.random() < _LONG_NAME_RATE:
            return self._fillings.long_person()
        value = self._fillings.value(kind)
        if kind in ("product", "garment") and self._rng.random() < _LONG_VALUE_RATE:
            return f"{noun(self._rng)} {value}"
        return value

    def _fact(self, subject: Subject, key: str, target: Subject | None = None) -> Fact:
        relation = _RELATIONS[subject.kind, key]
        value = target.name if target else self._unused(subject, relation.value)
        fact = Fact(relation, value, target)
        subject.facts.append(fact)
        return fact

    def _unused(self, subject: Subject, kind: str) -> str:
        used = {f.value for f in subject.facts}
        while True:
            value = self._filling(kind).removeprefix("the ")
            if value not in used:
                return value

    def _say(self, passage: Passage, template: str, facts: tuple[Fact, ...], **said: str) -> None:
        """Add a sentence in one of the demo's wordings, with the facts that it states."""
        wording = self._rng.choice(TEMPLATES[template])
        sentence = capitalised(wording.format(**said))
        passage.sentences.append(sentence)
        passage.facts.update({fact: sentence for fact in facts if fact.value in sentence})

    def _aside(self, passage: Passage, template: str, **said: str) -> None:
        if self._rng.random() < 0.5:
            passage.sentences.append(filler(self._rng))
        else:
            self._say(passage, template, (), **said)

    def _shuffled(self, passage: Passage, *writers: Callable[[], None]) -> None:
        for write in self._rng.sample(writers, len(writers)):
            write()

    def _title(self, subject: Subject, named: str) -> str:
        if self._rng.random() >= _VEILED_RATE:
            return named
        if self._rng.random() < 0.5:
            return title(self._rng)
        return f"The {subject.called or 'club'}'s {thing(self._rng)}"

    def _worker(self) -> str:
        if self._rng.random() < 0.5:
            return self._fillings.value("occupation")
        return f"{noun(self._rng)} {self._rng.choice(_WORKERS)}"

    def _personal(self) -> Subject:
        subject = self._subject("person", self._worker(), self._rng.choice(("she", "he")))
        for key in ("born_in", "birth_year", "instrument", "street", "pet", "collection"):
            self._fact(subject, key)
        subject.facts.append(Fact(_RELATIONS["person", "occupation"], subject.called))
        return subject

    def _person(self) -> None:
        self._write_person(self._personal())

    def _write_person(self, person: Subject) -> None:
        rng = self._rng
        facts = {f.key: f for f in person.facts}
        said = _said_of_person(person, facts) | {
            "town": self._fillings.place(),
            "house": place_phrase(rng),
            "workplace": f"the {thing(rng)}",
            "friend": self._filling("person"),
            "mentor": self._filling("person"),
        }
        named = PERSON_TITLE.format(name=person.name, worker=person.called)
        header = self._title(person, named)
        first, second = Passage(header, person), Passage(header, person, anonymous=True)
        birth = (facts["born_in"], facts["birth_year"], facts["occupation"])
        self._say(first, "birth", birth, **said)
        self._shuffled(
            first,
            lambda: first.sentences.append(filler(rng)),
            lambda: self._say(first, "instrument", (facts["instrument"],), **said),
        )
        self._aside(first, "later_years", **said)
        self._say(first, rng.choice(("apprentice", "letters")), (), **said)
        self._say(second, "away", (), **said)
        self._shuffled(
            second,
            lambda: self._say(second, "home", (facts["street"],), **said),
            lambda: self._say(second, "pet", (facts["pet"],), **said),
            lambda: self._say(second, "collection", (facts["collection"],), **said),
            lambda: second.sentences.append(filler(rng)),
            lambda: self._aside(second, "later_years", **said),
        )
        self.passages += [first, second]

    def _firm(self) -> None:
        rng = self._rng
        trade = f"{noun(rng)} {rng.choice(_TRADES)}"
        firm = self._subject("org", trade, "it")
        founder, heir = self._personal(), self._personal()
        facts = {
            key: self._fact(firm, key, target)
            for key, target in (
                ("founder", founder),
                ("founded", None),
                ("new_owner", heir),
                ("sold_in", None),
                ("emblem", None),
                ("moved_in", None),
                ("moved_to", None),
            )
        }
        said = {
            "firm": firm.name,
            "trade": trade,
            "goods": self._fillings.value("product"),
            "street": self._fillings.street(),
            "founder": founder.name,
            "founded": facts["founded"].value,
            "successor": heir.name,
            "passed": facts["sold_in"].value,
            "emblem": facts["emblem"].value,
            "moved": facts["moved_in"].value,
            "new_street": facts["moved_to"].value,
            "count": rng.choice(_COUNTS),
        }
        header = self._title(firm, firm.name)
        first, second = Passage(header, firm), Passage(header, firm, anonymous=True)
        self._say(first, "founded", (facts["founder"], facts["founded"]), **said)
        self._shuffled(
            first,
            lambda: first.sentences.append(filler(rng)),
            lambda: self._say(first, "goods", (), **said),
        )
        self._aside(first, "firm_colour", **said)
        veiled = header != firm.name and rng.random() < 0.5
        later: list[Callable[[], None]] = [
            lambda: self._say(second, "emblem", (facts["emblem"],), **said),
            lambda: second.sentences.append(filler(rng)),
            lambda: self._aside(second, "firm_colour", **said),
        ]
        moved = (facts["moved_in"], facts["moved_to"])
        if veiled:
            self._say(second, "moved", moved, **said)
        else:
            self._say(second, "taken_over", (facts["new_owner"], facts["sold_in"]), **said)
            later.append(lambda: self._say(second, "moved", moved, **said))
        self._shuffled(second, *later)
        self.passages += [first, second]
        if veiled:
            self._founder_of_veiled(header, founder)
        else:
            for owner in rng.sample((founder, heir), rng.randint(1, 2)):
                self._write_person(owner)

    def _founder_of_veiled(self, header: str, founder: Subject) -> None:
        facts = {f.key: f for f in founder.facts}
        said = _said_of_person(founder, facts)
        passage = Passage(header, founder, anonymous=True)
        birth = (facts["born_in"], facts["birth_year"])
        self._say(passage, "veiled_birth", birth, **said)
        self._shuffled(
            passage,
            lambda: self._say(passage, "instrument", (facts["instrument"],), **said),
            lambda: self._say(passage, "pet", (facts["pet"],), **said),
            lambda: passage.sentences.append(filler(self._rng)),
            lambda: self._aside(passage, "later_years", **said),
        )
        self.passages.append(passage)

    def _building(self) -> None:
        rng = self._rng
        building = self._subject("building", "", "it")
        facts = {
            key: self._fact(building, key)
            for key in ("built", "architect", "material", "weathervane")
        }
        said = {
            "building": building.name.removeprefix("the "),
            "town": self._fillings.place(),
            "street": self._fillings.street(),
            "built": facts["built"].value,
            "architect": facts["architect"].value,
            "material": facts["material"].value,
            "emblem": facts["weathervane"].value,
            "changed": self._fillings.year(),
        }
        header = capitalised(building.name)
        first, second = Passage(header, building), Passage(header, building, anonymous=True)
        self._say(first, "built", (facts["built"],), **said)
        self._shuffled(
            first,
            lambda: self._say(first, "designed", (facts["architect"], facts["material"]), **said),
            lambda: first.sentences.append(filler(rng)),
        )
        self._aside(first, "building_colour", **said)
        self._say(second, "building_later", (), **said)
        self._shuffled(
            second,
            lambda: self._say(second, "vane", (facts["weathervane"],), **said),
            lambda: second.sentences.append(filler(rng)),
            lambda: self._aside(second, "building_colour", **said),
        )
        self.passages += [first, second]

    def _club(self) -> None:
        rng = self._rng
        club = self._subject("org", "", "they")
        founder = self._personal()
        members = rng.choice(_MEMBERS)
        facts = {
            key: self._fact(club, key, target)
            for key, target in (("founder", founder), ("founded", None), ("meets_in", None))
        }
        asked = QUESTIONS["club_garment"][0].removeprefix("What do the ")
        worn = replace(
            _RELATIONS["org", "garment"],
            questions=(
                "What do the " + asked.format(name=MEMBERS_OF.format(members=members, name="{n}")),
            ),
        )
        facts["garment"] = Fact(worn, self._filling("garment"))
        club.facts.append(facts["garment"])
        said = {
            "club": club.name,
            "founder": founder.name,
            "founded": facts["founded"].value,
            "building": facts["meets_in"].value,
            "garment": facts["garment"].value,
            "members": members,
        }
        header = self._title(club, club.name)
        first, second = Passage(header, club), Passage(header, club, anonymous=True)
        self._say(first, "club_founded", (facts["founder"], facts["founded"]), **said)
        first.sentences.append(filler(rng))
        self._aside(first, "club_colour", **said)
        self._say(first, "club_meets", (facts["meets_in"],), **said)
        second.sentences.append(filler(rng))
        self._shuffled(
            second,
            lambda: self._say(second, "club_wears", (facts["garment"],), **said),
            lambda: self._aside(second, "club_colour", **said),
        )
        self.passages += [first, second]
        if rng.random() < 0.5:
            self._write_person(founder)


def _said_of_person(person: Subject, facts: dict[str, Fact]) -> dict[str, str]:
    woman = person.pronoun == "she"
    subjective, possessive = ("she", "her") if woman else ("he", "his")
    return {
        "name": person.name,
        "worker": person.called,
        "a_worker": with_article(person.called),
        "village": facts["born_in"].value,
        "born": facts["birth_year"].value,
        "instrument": facts["instrument"].value,
        "street": facts["street"].value,
        "pet": facts["pet"].value,
        "collection": facts["collection"].value,
        "sub": subjective,
        "Sub": capitalised(subjective),
        "obj": "her" if woman else "him",
        "pos": possessive,
        "Pos": capitalised(possessive),
    }


def town_notes(n_documents: int, fillings: Fillings, rng: random.Random) -> Notes:
    """Passages about a made-up town, some lost, in any order."""
    while True:
        notes = _Town(fillings, rng).draw(n_documents)
        if notes.world:
            return notes
