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
