"""Phrases that say nothing: what follows a value in running text, so that its end must be seen."""

import random

_PREPOSITIONS = (
    "after,against,along,among,at,before,behind,beside,by,during,for,from,near,of,on,over,past,"
    "since,through,towards,under,until,with,within,without"
).split(",")
_ADJECTIVES = (
    "ancient,bare,bitter,brief,broad,broken,calm,careful,cheap,clever,crooked,damp,distant,dusty,"
    "early,empty,faded,famous,first,foreign,gentle,great,heavy,hidden,hollow,kind,last,late,little,"
    "lonely,long,loud,lucky,modest,narrow,new,noisy,old,painted,patient,plain,proud,quick,rainy,"
    "second,sharp,short,slow,small,sunny,tall,third,tired,usual,warm,wet,whole,wild,wooden,young"
).split(",")
_NOUNS = (
    "accident,afternoon,argument,attic,aunt,autumn,barn,bench,bill,birthday,breakfast,cellar,"
    "chimney,cloud,coach,corner,counter,courtyard,cupboard,curtain,custom,debt,dinner,door,dream,"
    "election,evening,excuse,fence,fever,field,fire,flood,fountain,funeral,garden,gate,guest,"
    "habit,harvest,hedge,holiday,hour,joke,journey,judge,kitchen,ladder,lamp,law,letter,market,"
    "meadow,mistake,morning,neighbour,newspaper,night,offer,orchard,path,people,pond,porch,"
    "promise,puddle,quarrel,queue,rain,reason,repair,river,roof,rule,rumour,school,season,secret,"
    "shed,shop,sky,smoke,song,staircase,station,storm,story,stranger,summer,supper,table,tax,"
    "theatre,tower,trouble,tunnel,uncle,view,visit,wagon,wall,war,wedding,week,well,window,winter,"
    "word,year"
).split(",")
_PEOPLE = (
    "children,clerks,cousins,everyone,farmers,few,friends,guests,many,most people,nobody,one paper,"
    "some,strangers,the family,the neighbours,the old,two witnesses,visitors,young people"
).split(",")
_VERBS = (
    "admired,believed,complained about,denied,enjoyed,forgot,found odd,joked about,knew,laughed at,"
    "liked,mentioned,missed,noticed,praised,regretted,remembered,saw,spoke of,wondered about"
).split(",")


def aside(rng: random.Random) -> str:
    """One phrase to put before the full stop of a sentence, with what joins it on."""
    thing = f"{rng.choice(('a', 'the', 'the', 'that', 'one'))} "
    thing += f"{rng.choice(_ADJECTIVES)} " if rng.random() < 0.6 else ""
    thing += rng.choice(_NOUNS)
    people, verb = rng.choice(_PEOPLE), rng.choice(_VERBS)
    return rng.choice(
        (
            f" {rng.choice(_PREPOSITIONS)} {thing}",
            f" {rng.choice(_PREPOSITIONS)} {thing}",
            f", {rng.choice(_PREPOSITIONS)} {thing}",
            f", which {people} {verb}",
            f", as {people} {verb}",
            f"; {people} {verb} it",
            f" when {people} {verb} {thing}",
            f" and {verb} {thing}",
        )
    )


_ROLES = (
    "ancestor,cousin,customer,friend,guest,lodger,member,neighbour,newcomer,pupil,relative,"
    "resident,stranger,traveller,visitor,witness"
).split(",")


def role(rng: random.Random) -> str:
    """What a person may be called without stating a fact."""
    return f"{rng.choice(_ADJECTIVES)} {rng.choice(_ROLES)}"


def noun(rng: random.Random) -> str:
    """The name of a thing that means nothing."""
    return rng.choice(_NOUNS)


def thing(rng: random.Random) -> str:
    """Something without meaning, its adjective first."""
    return f"{rng.choice(_ADJECTIVES)} {noun(rng)}"


def place_phrase(rng: random.Random) -> str:
    """Where or when something was, without saying anything."""
    return f"{rng.choice(_PREPOSITIONS)} the {thing(rng)}"


def appositive(is_person: bool, rng: random.Random) -> str:
    """A phrase without a fact, to be set between commas after a name."""
    people, verb = rng.choice(_PEOPLE), rng.choice(_VERBS)
    place = place_phrase(rng)
    if not is_person:
        return rng.choice((f"which {people} {verb}", place))
    phrase = role(rng)
    article = "an" if phrase[0] in "aeiou" else "a"
    return rng.choice(
        (f"whom {people} {verb}", f"{article} {phrase}", f"{article} {phrase} {place}")
    )


def filler(rng: random.Random) -> str:
    """A sentence without a fact."""
    what = f"the {thing(rng)}"
    other = f"{rng.choice(_PREPOSITIONS)} the {rng.choice(_NOUNS)}"
    people, verb = rng.choice(_PEOPLE), rng.choice(_VERBS)
    sentence = rng.choice(
        (
            f"{people} {verb} {what}",
            f"{people} {verb} {what} {other}",
            f"{what} was {rng.choice(_ADJECTIVES)}, as {people} {verb}",
            f"{other[:1].upper()}{other[1:]} {people} {verb} {what}",
            f"there was {what} {other}",
        )
    )
    return f"{sentence[0].upper()}{sentence[1:]}."


def title(rng: random.Random) -> str:
    """A title that says nothing about who the document is about."""
    first, second = rng.sample(_NOUNS, 2)
    about, other = rng.choice(_ADJECTIVES), rng.choice(_ADJECTIVES)
    words = rng.choice(
        (
            f"concerning {first} and {second}",
            f"when the {first} was {about}",
            f"{about} {first}, {other} {second}",
            f"{first} or {second}",
            f"of {about} {first} and {other} {second}",
        )
    )
    return f"{words[0].upper()}{words[1:]}"
