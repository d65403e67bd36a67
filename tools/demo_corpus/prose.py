"""Turn the facts of the town into documents of plain English.

A paragraph opens with the sentence that names its subject; the sentences that follow change
their order from document to document. A sentence that names a second person comes last, so that
a pronoun always means the person (or firm) of the paragraph.
"""

from random import Random

from heddle.demo.corpus import PARAGRAPH_BORDER, DemoDocument
from tools.demo_corpus import lexicon
from tools.demo_corpus.world import Building, Club, Deck, Event, Firm, Person, World


def write_documents(world: World, rng: Random) -> tuple[DemoDocument, ...]:
    """Return the documents of the archive, shuffled and numbered. Mutates: `rng`."""
    writer = _Writer(rng)
    documents = list(writer.documents(world))
    rng.shuffle(documents)
    return tuple(
        DemoDocument(id=f"town-{number:03d}", title=title, text=PARAGRAPH_BORDER.join(paragraphs))
        for number, (title, paragraphs) in enumerate(documents, start=1)
    )


class _Writer:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.decks = {name: Deck(rng, wordings) for name, wordings in lexicon.TEMPLATES.items()}

    def documents(self, world: World) -> list[tuple[str, list[str]]]:
        documents = [(firm.title, self._firm(firm)) for firm in world.firms]
        documents += [(firm.title, self._veiled_firm(firm)) for firm in world.veiled_firms]
        owners = [p for f in world.firms for p in (f.founder, f.successor) if p is not None]
        documents += [(p.title, self._person(p)) for p in (*owners, *world.residents)]
        documents += [(title, self._person(p)) for title, p in world.veiled_residents]
        documents += [(f"The {b.lore.name}", self._building(b)) for b in world.buildings]
        documents += [(f"The {e.lore.name}", self._event(e)) for e in world.events]
        documents += [(club.lore.title, self._club(club)) for club in world.clubs]
        return documents

    def _say(self, template_name: str, **facts: object) -> str:
        """Fill the next wording of a fact."""
        return _filled(self.decks[template_name].deal(), **facts)

    def _paragraph(self, opening: str, middle: list[str], *closing: str) -> str:
        self.rng.shuffle(middle)
        return " ".join(sentence for sentence in (opening, *middle, *closing) if sentence)

    def _person(self, person: Person) -> list[str]:
        facts = _person_facts(person)
        relation = "apprentice" if person.mentor else "letters"
        return [
            self._paragraph(
                self._say("birth", **facts),
                [_filled(person.work_first, **facts), self._say("instrument", **facts)],
                self._say("later_years", **facts),
                self._say(relation, **facts),
            ),
            self._paragraph(
                self._say("away", **facts),
                [
                    _filled(person.work_later, **facts),
                    self._say("home", **facts),
                    self._say("pet", **facts),
                    self._say("collection", **facts),
                    self._say("later_years", **facts),
                ],
            ),
        ]

    def _firm_facts(self, firm: Firm) -> dict[str, object]:
        return {
            "firm": firm.name,
            "trade": firm.trade,
            "goods": firm.goods,
            "founder": firm.founder.name,
            "founded": firm.founded,
            "street": firm.street,
            "emblem": firm.emblem,
            "moved": firm.moved,
            "new_street": firm.new_street,
            "passed": firm.passed,
            "successor": firm.successor.name if firm.successor else "",
            "count": self.rng.choice(("eleven", "nineteen", "thirty", "forty-four", "sixty")),
        }

    def _firm(self, firm: Firm) -> list[str]:
        facts = self._firm_facts(firm)
        return [
            self._paragraph(
                self._say("founded", **facts),
                [firm.first, self._say("goods", **facts)],
                self._say("firm_colour", **facts),
            ),
            self._paragraph(
                self._say("taken_over", **facts),
                [firm.later, self._say("emblem", **facts), self._say("moved", **facts)],
                self._say("firm_colour", **facts),
            ),
        ]

    def _veiled_firm(self, firm: Firm) -> list[str]:
        facts = self._firm_facts(firm)
        founder = _person_facts(firm.founder)
        return [
            self._paragraph(
                self._say("founded", **facts),
                [firm.first, self._say("goods", **facts)],
                self._say("firm_colour", **facts),
            ),
            self._paragraph(
                self._say("moved", **facts),
                [
                    firm.later,
                    self._say("emblem", **facts),
                    self._say("firm_colour", **facts),
                    self._say("firm_colour", **facts),
                ],
            ),
            self._paragraph(
                self._say("veiled_birth", **founder),
                [
                    _filled(firm.founder.work_first, **founder),
                    self._say("instrument", **founder),
                    self._say("pet", **founder),
                    self._say("later_years", **founder),
                ],
            ),
        ]

    def _building(self, building: Building) -> list[str]:
        facts: dict[str, object] = {
            "building": building.lore.name,
            "town": lexicon.TOWN,
            "architect": building.architect,
            "built": building.built,
            "changed": building.changed,
            "street": building.street,
            "material": building.material,
            "emblem": building.emblem,
        }
        opening = self._paragraph(
            self._say("built", **facts),
            [self._say("designed", **facts), building.lore.first],
            self._say("building_colour", **facts),
            self._say("building_colour", **facts),
        )
        if not building.lore.later:
            return [opening]
        return [
            opening,
            self._paragraph(
                self._say("building_later", **facts),
                [
                    building.lore.later,
                    self._say("vane", **facts),
                    self._say("building_colour", **facts),
                ],
            ),
        ]

    def _event(self, event: Event) -> list[str]:
        facts: dict[str, object] = {
            "year": event.year,
            "place": event.place,
            "person": event.person.name,
            "town": lexicon.TOWN,
        }
        return [
            " ".join(
                (
                    _filled(event.lore.opening, **facts),
                    self._say("event_places", **facts),
                    _filled(event.lore.deed, **facts),
                    event.lore.colour,
                    self._say("event_colour", **facts),
                )
            )
        ]

    def _club(self, club: Club) -> list[str]:
        facts: dict[str, object] = {
            "club": club.lore.name,
            "founder": club.founder.name,
            "founded": club.founded,
            "building": club.building,
            "garment": club.lore.garment,
            "members": club.lore.members,
        }
        return [
            self._paragraph(
                self._say("club_founded", **facts),
                [club.lore.first, self._say("club_colour", **facts)],
                self._say("club_meets", **facts),
            ),
            self._paragraph(
                club.lore.later,
                [self._say("club_wears", **facts), self._say("club_colour", **facts)],
                self._say("club_colour", **facts),
            ),
        ]


def _person_facts(person: Person) -> dict[str, object]:
    woman = person.is_woman
    return {
        "name": person.name,
        "town": lexicon.TOWN,
        "worker": person.worker,
        "a_worker": f"{'an' if person.worker[0] in 'aeiou' else 'a'} {person.worker}",
        "workplace": person.workplace,
        "village": person.village,
        "born": person.born,
        "street": person.street,
        "house": person.house,
        "instrument": person.instrument,
        "pet": person.pet,
        "collection": person.collection,
        "friend": person.friend,
        "mentor": person.mentor,
        "sub": "she" if woman else "he",
        "Sub": "She" if woman else "He",
        "obj": "her" if woman else "him",
        "obj_self": "herself" if woman else "himself",
        "pos": "her" if woman else "his",
        "Pos": "Her" if woman else "His",
    }


def _filled(template: str, **facts: object) -> str:
    """Fill a template and give a sentence that starts with a filling its capital letter."""
    text = template.format(**facts)
    return text[:1].upper() + text[1:]
