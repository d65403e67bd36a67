"""Sentences that state two facts at once, so that one value is followed by another.

`{v}` is the value of the first relation, `{w}` that of the second; `{S}` as in `relations`.
"""

import random

from .world import Fact, Subject, capitalised, with_article

_SENTENCES: dict[tuple[str, str], tuple[str, ...]] = {
    ("born_in", "birth_year"): (
        "{S} was born in {v} in {w}.",
        "{S} came into the world at {v} in the autumn of {w}.",
        "{S} was born at {v} early in {w}, the youngest of four.",
    ),
    ("birth_year", "born_in"): (
        "{S} was born in {v} in {w}.",
        "{S} was born in {v}, far away in {w}.",
        "{S} was born in the summer of {v}, in the parish of {w}.",
    ),
    ("occupation", "lives_in"): (
        "{S} was {av} in {w}.",
        "{S} lived as {av} in {w}.",
    ),
    ("lives_in", "occupation"): (
        "{S} came to {v} as {aw}.",
        "{S} lives in {v} and works there as {aw}.",
    ),
    ("born_in", "occupation"): (
        "{S} was born in {v} and learned to be {aw}.",
        "{S}, who was born in {v}, turned into {aw}.",
    ),
    ("founder", "founded"): (
        "{S} was set up by {v} in {w}.",
        "{S} was begun by {v} in the spring of {w}.",
    ),
    ("founded", "founder"): (
        "{S} was opened in {v} by {w}.",
        "{S} was started in {v}, the idea of {w}.",
    ),
    ("moved_to", "moved_in"): (
        "{S} moved to {v} in {w}.",
        "{S} left for {v} in the winter of {w}.",
    ),
    ("moved_in", "moved_to"): ("{S} moved in {v}, to a hall on {w}.",),
    ("new_owner", "sold_in"): (
        "{S} passed to {v} in {w}.",
        "{S} was sold to {v} in the year {w}.",
    ),
    ("sold_in", "new_owner"): ("{S} was sold in {v} to {w}.",),
    ("architect", "material"): ("{S} was drawn by {v} and made of {w}.",),
    ("material", "architect"): ("{S} was made of {v} after a plan by {w}.",),
    ("located", "built"): ("{S} was put up in {v} in {w}.",),
    ("built", "located"): ("{S} was put up in {v} in {w}.",),
    ("winner", "held_in"): ("{S} was won by {v} in {w}.",),
    ("captain", "cargo"): ("{S} sailed under {v} with a load of {w}.",),
}


def partner(fact: Fact, others: list[Fact]) -> Fact | None:
    """The first of the other facts that can share a sentence with this one."""
    return next((other for other in others if (fact.key, other.key) in _SENTENCES), None)


def state_pair(subject: Subject, first: Fact, second: Fact, name: str, rng: random.Random) -> str:
    """One sentence with both values. name: how the subject is called."""
    sentence = rng.choice(_SENTENCES[first.key, second.key])
    return capitalised(
        sentence.format(
            S=name,
            v=first.value,
            w=second.value,
            av=with_article(first.value),
            aw=with_article(second.value),
        )
    )
