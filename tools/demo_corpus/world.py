"""Draw the facts of the invented town: who lived, what was founded, built and celebrated."""

from collections import Counter
from dataclasses import dataclass
from random import Random

from tools.demo_corpus import lexicon


class Deck:
    """Deals items in a shuffled order and shuffles again when all were dealt, so use is even."""

    def __init__(self, rng: Random, items: tuple[str, ...]) -> None:
        """Start with a shuffled deck of `items`."""
        self._rng = rng
        self._items = items
        self._left: list[str] = []

    def deal(self) -> str:
        """Return the next item. Mutates: the deck."""
        if not self._left:
            self._left = list(self._items)
            self._rng.shuffle(self._left)
        return self._left.pop()


@dataclass(frozen=True, slots=True)
class Person:
    """One inhabitant; every field is a fact of one passage."""

    name: str
    is_woman: bool
    worker: str
    workplace: str
    work_first: str
    work_later: str
    village: str
    born: int
    street: str
    house: str
    instrument: str
    pet: str
    collection: str
    friend: str
    mentor: str = ""

    @property
    def title(self) -> str:
        """The title of the person's document, where it names the person."""
        return lexicon.PERSON_TITLE.format(name=self.name, worker=self.worker)


@dataclass(frozen=True, slots=True)
class Firm:
    """A firm with a founder; a named one has a second owner, a veiled one a title of its own."""

    name: str
    title: str
    trade: str
    goods: str
    first: str
    later: str
    founder: Person
    successor: Person | None
    founded: int
    passed: int
    moved: int
    street: str
    new_street: str
    emblem: str


@dataclass(frozen=True, slots=True)
class Building:
    """A building, with the date of a later change."""

    lore: lexicon.Building
    architect: str
    built: int
    changed: int
    street: str
    material: str
    emblem: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once, and the person who is remembered for it."""

    lore: lexicon.Event
    person: Person
    year: int
    place: str


@dataclass(frozen=True, slots=True)
class Club:
    """A club, its founder and where it meets."""

    lore: lexicon.Club
    founder: Person
    founded: int
    building: str


@dataclass(frozen=True, slots=True)
class World:
    """All facts of the town."""

    firms: tuple[Firm, ...]
    veiled_firms: tuple[Firm, ...]
    residents: tuple[Person, ...]
    """People with a document under their own name who own no firm."""
    veiled_residents: tuple[tuple[str, Person], ...]
    """Pairs of a document title that names the work only, and the person."""
    buildings: tuple[Building, ...]
    events: tuple[Event, ...]
    clubs: tuple[Club, ...]


def draw_world(rng: Random) -> World:
    """Return the town's facts; equal generators give equal towns.

    Mutates: `rng`.
    Raises: ValueError: two proper names of the lexicon could be taken for one another.
    """
    if clashes := clashing_names():
        msg = f"lexicon.py: rename one of each of these, they clash: {', '.join(clashes)}"
        raise ValueError(msg)
    return _Draw(rng).world()


def clashing_names() -> list[str]:
    """Return names of the lexicon that are used twice or stand inside another name."""
    proper = [
        *lexicon.VILLAGES,
        *lexicon.STREETS,
        *(trade.firm for trade in lexicon.TRADES),
        *(trade.firm for trade in lexicon.VEILED_TRADES),
        *(building.name for building in lexicon.BUILDINGS),
        *(event.name for event in lexicon.EVENTS),
        *(club.name for club in lexicon.CLUBS),
    ]
    personal = [*lexicon.WOMEN, *lexicon.MEN, *lexicon.SURNAMES]
    inside = [a for a in proper for b in proper if a != b and a in b]
    repeated = [name for name, count in Counter(proper + personal).items() if count > 1]
    words = {word for name in (*proper, lexicon.TOWN, lexicon.RIVER) for word in name.split()}
    return sorted({*inside, *repeated, *(name for name in personal if name in words)})


class _Draw:
    """Hands out every name once and every filling evenly."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names = _names(rng)
        self.friends = [name for name, _ in self.names]
        self.villages = Deck(rng, lexicon.VILLAGES)
        self.homes = Deck(rng, lexicon.STREETS)
        self.houses = Deck(rng, lexicon.HOUSES)
        self.instruments = Deck(rng, lexicon.INSTRUMENTS)
        self.pets = Deck(rng, lexicon.PETS)
        self.collections = Deck(rng, lexicon.COLLECTIONS)
        self.emblems = Deck(rng, lexicon.EMBLEMS)
        self.materials = Deck(rng, lexicon.MATERIALS)

    def world(self) -> World:
        firm_streets = Deck(self.rng, lexicon.STREETS)
        firms = tuple(self._firm(lore, firm_streets.deal()) for lore in lexicon.TRADES)
        veiled = tuple(self._veiled(lore, firm_streets.deal()) for lore in lexicon.VEILED_TRADES)
        residents = tuple(self._resident(role) for role in lexicon.NAMED_ROLES)
        veiled_residents = tuple(
            (role.title, self._resident(role)) for role in lexicon.VEILED_ROLES
        )
        architects = Deck(self.rng, tuple(name for name, _ in self.names))
        buildings = tuple(self._building(lore, architects.deal()) for lore in lexicon.BUILDINGS)
        successors = [firm.successor for firm in firms if firm.successor is not None]
        guests = self.rng.sample(successors, len(lexicon.EVENTS))
        founders = self.rng.sample(residents, len(lexicon.CLUBS))
        return World(
            firms=firms,
            veiled_firms=veiled,
            residents=residents,
            veiled_residents=veiled_residents,
            buildings=buildings,
            events=tuple(
                self._event(lore, guest, buildings)
                for lore, guest in zip(lexicon.EVENTS, guests, strict=True)
            ),
            clubs=tuple(
                Club(
                    lore=lore,
                    founder=founder,
                    founded=founder.born + self.rng.randint(24, 45),
                    building=self.rng.choice(buildings).lore.name,
                )
                for lore, founder in zip(lexicon.CLUBS, founders, strict=True)
            ),
        )

    def _person(
        self,
        worker: str,
        workplace: str,
        work: tuple[str, str],
        born: int,
        *,
        street: str = "",
        mentor: str = "",
    ) -> Person:
        name, is_woman = self.names.pop()
        return Person(
            name=name,
            is_woman=is_woman,
            worker=worker,
            workplace=workplace,
            work_first=work[0],
            work_later=work[1],
            village=self.villages.deal(),
            born=born,
            street=street or self.homes.deal(),
            house=self.houses.deal(),
            instrument=self.instruments.deal(),
            pet=self.pets.deal(),
            collection=self.collections.deal(),
            friend=self.rng.choice([friend for friend in self.friends if friend != name]),
            mentor=mentor,
        )

    def _resident(self, role: lexicon.Role) -> Person:
        return self._person(
            role.worker, role.workplace, (role.first, role.later), self.rng.randint(1790, 1890)
        )

    def _firm(self, lore: lexicon.Trade, street: str) -> Firm:
        founded = self.rng.randint(1805, 1895)
        passed = founded + self.rng.randint(21, 33)
        founder = self._person(
            lore.worker,
            lore.workplace,
            (lore.founder_life, ""),
            founded - self.rng.randint(23, 38),
            street=street,
        )
        successor = self._person(
            lore.worker,
            lore.workplace,
            (lore.successor_life, ""),
            passed - self.rng.randint(26, 40),
            mentor=founder.name,
        )
        return Firm(
            name=lore.firm,
            title=lore.firm,
            trade=lore.trade,
            goods=lore.goods,
            first=lore.firm_first,
            later=lore.firm_later,
            founder=founder,
            successor=successor,
            founded=founded,
            passed=passed,
            moved=passed + self.rng.randint(2, 12),
            street=street,
            new_street=self._other_street(street),
            emblem=self.emblems.deal(),
        )

    def _veiled(self, lore: lexicon.VeiledTrade, street: str) -> Firm:
        founded = self.rng.randint(1805, 1895)
        founder = self._person(
            lore.worker,
            f"the {lore.trade}",
            (lore.founder_life, ""),
            founded - self.rng.randint(23, 38),
        )
        return Firm(
            name=lore.firm,
            title=lore.title,
            trade=lore.trade,
            goods=lore.goods,
            first=lore.firm_first,
            later=lore.firm_later,
            founder=founder,
            successor=None,
            founded=founded,
            passed=founded,
            moved=founded + self.rng.randint(8, 30),
            street=street,
            new_street=self._other_street(street),
            emblem=self.emblems.deal(),
        )

    def _other_street(self, street: str) -> str:
        return self.rng.choice([other for other in lexicon.STREETS if other != street])

    def _building(self, lore: lexicon.Building, architect: str) -> Building:
        built = self.rng.randint(1710, 1890)
        return Building(
            lore=lore,
            architect=architect,
            built=built,
            changed=built + self.rng.randint(15, 60),
            street=self.homes.deal(),
            material=self.materials.deal(),
            emblem=self.emblems.deal(),
        )

    def _event(self, lore: lexicon.Event, person: Person, buildings: tuple[Building, ...]) -> Event:
        year = person.born + self.rng.randint(18, 55)
        standing = [b for b in buildings if b.built < year]
        return Event(
            lore=lore, person=person, year=year, place=f"the {self.rng.choice(standing).lore.name}"
        )


def _names(rng: Random) -> list[tuple[str, bool]]:
    """Pair every given name with a surname of its own; the flag says whether it is a woman's."""
    given = [(name, True) for name in lexicon.WOMEN] + [(name, False) for name in lexicon.MEN]
    surnames = list(lexicon.SURNAMES)
    rng.shuffle(given)
    rng.shuffle(surnames)
    return [
        (f"{name} {surname}", is_woman)
        for (name, is_woman), surname in zip(given, surnames, strict=True)
    ]
