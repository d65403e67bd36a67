"""Names and other fillings, split by hash so that evaluation never meets a training filling."""

import hashlib
import random
from collections.abc import Callable
from enum import StrEnum

HELD_OUT_SHARE = 6  # one filling in six is kept for evaluation


class Split(StrEnum):
    TRAIN = "train"
    HELD_OUT = "held_out"


def split_of(filling: str) -> Split:
    """The split a name part, word or number belongs to, by its hash alone."""
    digest = hashlib.blake2s(filling.lower().encode(), digest_size=4).digest()
    held_out = int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0
    return Split.HELD_OUT if held_out else Split.TRAIN


_ONSETS = (
    "b c d f g h j k l m n p r s t v w y z br ch cl cr dr fl fr gl gr kr pr qu sh sk sl st th tr vr"
).split()
_NUCLEI = "a a a a e e e e i i i o o o u u ai au ea ei ia ou oo ee".split()
_CODAS = "b d f g k l m n p r s t x z ck ld lm ln mp nd ng nk nt rd rk rl rn rt sk ss st th".split()

_FIRST = (
    "Adam Agnes Alan Albert Alice Amanda Andrew Anna Arthur Barbara Beatrice Benjamin Carla "
    "Catherine Charles Clara Daniel David Deborah Dennis Diana Edgar Eleanor Elena Emma Ernest "
    "Ethan Eva Fatima Felix Fiona Frances Frank George Gloria Grace Hannah Harold Helen Henry Ida "
    "Irene Isaac Jack James Jane Jasmine Joan John Joseph Julia Karen Keith Laura Leah "
    "Leonard Lily "
    "Louis Lucy Margaret Maria Mark Martin Matthew Maurice Mei Michael Mohammed Monica "
    "Naomi Nathan "
    "Nicholas Nina Noah Olga Oliver Oscar Pamela Patrick Paul Peter Philip Priya Rachel "
    "Ravi Rebecca "
    "Richard Robert Roger Ruth Samuel Sandra Sara Sean Simon Sofia Stella Susan Theresa "
    "Thomas Ursula "
    "Valentina Victor Vincent Virginia Walter Wei William Yusuf Zoe"
).split()
_LAST = (
    "Abbott Ali Anders Armstrong Baker Barnes Bell Bennett Berg Bishop Blake Brooks Brown Burton "
    "Carter Chandra Chen Clark Cole Collins Cooper Cruz Davies Dixon Douglas Edwards Evans Fischer "
    "Fisher Fletcher Flores Ford Foster Fox Fuller Garcia Gardner Gibson Gordon Grant Gray Green "
    "Gupta Hansen Harper Harris Hayes Henderson Hill Hoffman Howard Hughes Hunt Jackson "
    "James Jensen "
    "Johnson Jones Khan Kim King Klein Knight Kumar Lambert Lane Larsen Lee Lewis Long "
    "Lopez Martin "
    "Mason Meyers Miller Mitchell Moore Morgan Morris Murphy Nakamura Nelson Newman Nguyen Norris "
    "Oliver Palmer Parker Patel Perry Peterson Porter Powell Price Reed Richards Rivera Roberts "
    "Robinson Rogers Romano Ross Russell Sanchez Sanders Schmidt Scott Sharma Shaw Singh "
    "Smith Stone "
    "Suzuki Taylor Thomas Thompson Torres Turner Walker Wallace Walsh Ward Watson Webb "
    "White Williams "
    "Wilson Wood Wright Wu Yamada Young"
).split()

_LISTS = {
    "occupation": (
        "actor,archivist,artist,astronomer,baker,banker,barber,biologist,blacksmith,bookbinder,"
        "botanist,brewer,bricklayer,butcher,captain,carpenter,chemist,clerk,clockmaker,"
        "composer,cook,"
        "cooper,dancer,dentist,diplomat,doctor,dressmaker,driver,economist,editor,electrician,"
        "engineer,explorer,farmer,film director,firefighter,fisherman,gardener,geologist,"
        "glassblower,"
        "goldsmith,guide,historian,hunter,inventor,jeweller,journalist,judge,lawyer,librarian,"
        "lighthouse keeper,linguist,locksmith,mathematician,mechanic,merchant,midwife,miller,miner,"
        "musician,novelist,nurse,optician,painter,pharmacist,philosopher,photographer,physicist,"
        "pilot,plumber,poet,police officer,politician,potter,printer,professor,roofer,sailor,"
        "sculptor,shepherd,shoemaker,singer,soldier,surgeon,surveyor,tailor,teacher,translator,"
        "weaver,writer,zoologist"
    ).split(","),
    "instrument": (
        "accordion,bagpipe,banjo,bassoon,cello,clarinet,cornet,double bass,drum,fiddle,flute,"
        "French horn,guitar,harmonica,harp,harpsichord,lute,lyre,mandolin,oboe,organ,piano,piccolo,"
        "recorder,saxophone,sitar,tambourine,trombone,trumpet,tuba,ukulele,viola,violin,xylophone"
    ).split(","),
    "hobby": (
        "archery,badminton,birdwatching,bowling,boxing,calligraphy,camping,canoeing,card games,"
        "chess,climbing,cooking,cricket,crosswords,cycling,dancing,diving,drawing,"
        "embroidery,fencing,"
        "fishing,football,gardening,golf,hiking,hockey,horse riding,judo,juggling,kite flying,"
        "knitting,origami,photography,pottery,puzzles,reading,rowing,rugby,running,sailing,sewing,"
        "singing,skating,skiing,stamp collecting,surfing,swimming,tennis,volleyball,wood carving,"
        "wrestling,yoga"
    ).split(","),
    "animal": (
        "badger,beaver,camel,canary,cat,cow,crow,deer,dog,donkey,duck,eagle,falcon,ferret,fox,frog,"
        "goat,goose,hamster,hare,hawk,hedgehog,hen,horse,lamb,lizard,llama,magpie,mole,"
        "monkey,mouse,"
        "mule,otter,owl,parrot,peacock,pig,pigeon,pony,rabbit,raven,salamander,snake,spaniel,"
        "squirrel,swan,terrier,toad,tortoise,turkey,weasel,wolf"
    ).split(","),
    "food": (
        "apples,apricots,bacon,beans,beetroot,bread,butter,cabbage,cake,carrots,cheese,cherries,"
        "chestnuts,chicken,chocolate,cucumbers,curry,dumplings,eggs,figs,fish pie,"
        "garlic soup,grapes,"
        "ham,honey,ice cream,jam,lemons,lentils,lobster,mushrooms,mussels,noodles,oatmeal,olives,"
        "onions,oranges,pancakes,pears,peas,pickles,plums,porridge,potatoes,pumpkin,rice,"
        "roast beef,"
        "salmon,sausages,spinach,strawberries,toast,tomatoes,trout,walnuts"
    ).split(","),
    "language": (
        "Arabic,Armenian,Bengali,Catalan,Croatian,Czech,Danish,Dutch,English,Finnish,"
        "French,Georgian,"
        "German,Greek,Gujarati,Hebrew,Hindi,Hungarian,Irish,Italian,Japanese,Korean,Latin,Latvian,"
        "Malay,Maltese,Mongolian,Nepali,Norwegian,Persian,Polish,Portuguese,Romanian,"
        "Russian,Serbian,"
        "Somali,Spanish,Swahili,Swedish,Tamil,Thai,Tibetan,Turkish,Ukrainian,Urdu,Vietnamese,Welsh,"
        "Zulu"
    ).split(","),
    "colour": (
        "amber,apricot,beige,black,blue,bronze,brown,copper,cream,dark blue,emerald,gold,"
        "green,grey,"
        "indigo,ivory,lavender,lemon yellow,light green,maroon,olive,orange,pale pink,pink,plum,"
        "purple,red,rose,ruby,rust,scarlet,silver,sky blue,turquoise,violet,white,yellow"
    ).split(","),
    "material": (
        "aluminium,basalt,birch wood,brick,bronze,cast iron,cedar,clay,concrete,copper,cork,flint,"
        "glass,granite,lead,lime,limestone,marble,mud,oak,pine,plaster,red stone,sandstone,slate,"
        "steel,straw,tile,timber,tin,white marble,wrought iron,zinc"
    ).split(","),
    "garment": (
        "aprons,belts,blue coats,boots,bow ties,capes,caps,dark suits,felt hats,fur collars,"
        "green jackets,grey cloaks,hoods,leather gloves,linen shirts,long robes,masks,red scarves,"
        "sandals,sashes,silk scarves,slippers,straw bonnets,striped ties,top hats,tunics,"
        "velvet waistcoats,veils,white gloves,wigs,wooden shoes,woollen socks,yellow ribbons"
    ).split(","),
    "product": (
        "almonds,anchors,barrels,baskets,bells,bicycles,blankets,boots,bottles,bricks,brushes,"
        "buttons,candles,canoes,carpets,chairs,clay pots,clocks,cloth,coal,coffee,combs,"
        "copper wire,"
        "cotton,dyes,engines,fans,furniture,glass beads,gloves,glue,grain,hammers,hats,herbs,ink,"
        "kettles,keys,kites,knives,lace,lamps,leather,lenses,locks,maps,masks,matches,"
        "mirrors,nails,"
        "needles,nets,paint,paper,pens,pepper,pianos,pipes,plates,ploughs,porcelain,pumps,radios,"
        "ribbons,rope,rugs,saddles,sails,salt,saws,scales,scissors,shoes,silk,silver spoons,soap,"
        "spectacles,spices,stoves,sugar,swords,tables,tea,telescopes,tiles,tobacco,tools,toys,"
        "umbrellas,vases,vinegar,wagons,watches,wax,wheels,whistles,windows,wine,wool"
    ).split(","),
    "topic": (
        "a bank robbery,a blind painter,a broken promise,a family of bakers,a forgotten king,"
        "a haunted mill,a journey by sea,a long winter,a lost letter,a secret garden,a small war,"
        "a stolen ring,ancient roads,bees,birds of the north,city walls,deep water,desert plants,"
        "dreams,early railways,exile,folk songs,forest fires,friendship,glaciers,harbour life,"
        "hidden treasure,island birds,jealousy,lighthouses,love and money,medicine,mountain people,"
        "old coins,poisons,prison life,revenge,river trade,rural schools,ships of war,silence,"
        "snow,spiders,the fall of a city,the history of salt,the moon,the plague,"
        "the price of bread,"
        "the stars,three sisters,tides,two brothers,volcanoes,whales,wild horses,winter travel"
    ).split(","),
}
_STREET_FORMS = (
    "{x} Street,{x} Lane,{x} Road,{x} Row,{x} Square,{x} Alley,{x} Way,{x} Court,{x} Avenue,"
    "{x} Hill,{x} Walk,{x} Place"
).split(",")
_MONTHS = (
    "January February March April May June July August September October November December"
).split()
_THING_HEADS = (
    "lamp pump clock engine press valve compass brake lock loom plough mill stove saw drill boat "
    "telescope whistle scale ladder wheel cart kiln bell trap"
).split()
_THING_MODIFIERS = (
    "folding steam double silent floating spring pocket water wind magnetic rotary hand pressure "
    "glass paper rope electric safety night salt mountain winter mirror chain"
).split()
_WORK_ADJECTIVES = (
    "Last Silent Broken Golden Second Hidden Long Empty Burning Blue Early Distant Wild Narrow Old "
    "Patient Red Salt Winter Seventh Bitter Crooked Quiet Stolen Lonely Northern Bright Hollow"
).split()
_WORK_NOUNS = (
    "River Garden Letter Window Hour Harvest Bridge Crown Lantern Road Mirror Orchard Storm Voice "
    "Island Door Shore Candle Map Feather Summer Harbour Stone Shadow Meadow Kingdom Song Journey"
).split()
_ORG_FORMS = (
    "{x} Works",
    "{x} Company",
    "{x} Institute",
    "{x} Society",
    "{x} University",
    "{x} Bank",
    "{x} College",
    "{x} Museum",
    "{x} Press",
    "{x} Brothers",
    "{x} Foundry",
    "{x} Laboratories",
    "{x} Group",
    "{x} Academy",
    "{x} and {y}",
    "{x} Trading Company",
    "Institute of {x}",
    "{x} Mills",
    "{x} Shipyard",
    "Royal {x} Society",
    "{x} Hospital",
    "{x} Foundation",
    "{x} Industries",
    "{x}",
)
_BUILDING_FORMS = (
    "the {x} Bridge",
    "the {x} Tower",
    "the {x} Library",
    "{x} Castle",
    "{x} Hall",
    "the {x} Theatre",
    "the {x} Lighthouse",
    "{x} Station",
    "{x} Palace",
    "the {x} Dam",
    "{x} Cathedral",
    "the {x} Market Hall",
    "{x} House",
    "the {x} Opera",
    "the {x} Gate",
)
_EVENT_FORMS = (
    "the {x} Festival",
    "the {x} Cup",
    "the {x} Fair",
    "the {x} Race",
    "the {x} Games",
    "the {x} Regatta",
    "the {x} Prize",
    "the {x} Marathon",
    "the {x} Conference",
    "the {x} Contest",
    "the {x} Parade",
    "the {x} Exhibition",
)
_PLACE_ENDINGS = (
    "",
    "",
    "",
    "ton",
    "ville",
    "burg",
    "ford",
    "mouth",
    "stad",
    "field",
    "by",
    "heim",
)
_PLACE_PREFIXES = ("Port ", "Saint ", "New ", "East ", "Lower ", "Mount ")
_AWARD_FORMS = ("{x} Prize", "{x} Medal", "{x} Award", "Order of {x}", "{x} Cross", "{x} Ribbon")
_GENERIC_KEYS = (
    "badge number,callsign,emblem,motto,nickname,password,patron,symbol,seal,house number,"
    "room,locker,team,rank,club,district,route,platform,dialect,guild,crest,flag,flower,"
    "lucky charm,middle name,pen name,registration,code name,file,shelf,grade,tribe,clan,parish,"
    "school,theme,partner,supplier,rival,neighbour,agent,doctor,lawyer,landlord,cousin,assistant,"
    "hero,idol,favourite song,favourite season,vehicle,horse,boat,uniform,signal,tune,dance,dish,"
    "drink,sweet,fruit,tree,stone,metal,star,planet,festival,card,mask,tool,weapon,shield,coin"
).split(",")


_WORDS = [
    word.lower()
    for values in (_FIRST, _LAST, *_LISTS.values())
    for value in values
    for word in value.split()
    if word.isalpha() and len(word) > 3
]


class Fillings:
    """Draws names and values of one split from a seeded generator."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self._rng = rng
        self._split = split
        self._allowed = {
            kind: [v for v in values if split_of(v) is split] for kind, values in _LISTS.items()
        }
        self._first = [v for v in _FIRST if split_of(v) is split]
        self._last = [v for v in _LAST if split_of(v) is split]
        self._keys = [v for v in _GENERIC_KEYS if split_of(v) is split]

    def word(self, low: int = 1, high: int = 3) -> str:
        """A made-up capitalised word of this split: `low` to `high` syllables, or a blend."""
        while True:
            is_blend = high > 1 and self._rng.random() < 0.4
            word = (self._blend() if is_blend else self._syllables(low, high)).capitalize()
            if 3 <= len(word) <= 12 and split_of(word) is self._split:
                return word

    def _syllables(self, low: int, high: int) -> str:
        rng = self._rng
        parts = []
        for i in range(rng.randint(low, high)):
            parts.append("" if i == 0 and rng.random() < 0.12 else rng.choice(_ONSETS))
            parts.append(rng.choice(_NUCLEI))
        if rng.random() < 0.6:
            parts.append(rng.choice(_CODAS))
        return "".join(parts)

    def _blend(self) -> str:
        """The start of one word and the end of another, which looks more like a real name."""
        first, second = self._rng.choice(_WORDS), self._rng.choice(_WORDS)
        return first[: self._rng.randint(2, 5)] + second[-self._rng.randint(3, 6) :]

    def first_name(self) -> str:
        rng = self._rng
        return rng.choice(self._first) if rng.random() < 0.4 else self.word(1, 3)

    def last_name(self) -> str:
        rng = self._rng
        return rng.choice(self._last) if rng.random() < 0.35 else self.word(1, 3)

    def person(self) -> str:
        middle = f" {self.word(1, 2)[0]}." if self._rng.random() < 0.04 else ""
        return f"{self.first_name()}{middle} {self.last_name()}"

    def long_person(self) -> str:
        """A person whose name has more pieces, as old English names do."""
        last = self._of_split(lambda: self.word(1, 2) + self.word(1, 2).lower())
        return f"{self.word(2, 3)} {last}"

    def place(self) -> str:
        rng = self._rng
        while True:
            name = self.word(1, 3) + rng.choice(_PLACE_ENDINGS)
            if split_of(name) is self._split:
                break
        return (rng.choice(_PLACE_PREFIXES) if rng.random() < 0.1 else "") + name

    def street(self) -> str:
        return self._rng.choice(_STREET_FORMS).format(x=self.word(1, 3))

    def org(self) -> str:
        form = self._rng.choice(_ORG_FORMS)
        return form.format(x=self.word(1, 3), y=self.last_name())

    def building(self) -> str:
        return self._rng.choice(_BUILDING_FORMS).format(x=self.word(1, 3))

    def event(self) -> str:
        return self._rng.choice(_EVENT_FORMS).format(x=self.word(1, 3))

    def ship(self) -> str:
        return f"the {self.word(2, 3)}"

    def work(self) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            return f"The {self.word(1, 3)} {rng.choice(_WORK_NOUNS)}"
        while True:
            title = f"The {rng.choice(_WORK_ADJECTIVES)} {rng.choice(_WORK_NOUNS)}"
            if split_of(title) is self._split:
                return title

    def thing(self) -> str:
        rng = self._rng
        while True:
            thing = f"{rng.choice(_THING_MODIFIERS)} {rng.choice(_THING_HEADS)}"
            if split_of(thing) is self._split:
                return thing

    def year(self) -> str:
        return self._of_split(lambda: str(self._rng.randint(1620, 2023)))

    def number(self) -> str:
        rng = self._rng
        if rng.random() < 0.5:
            return self._of_split(lambda: str(rng.randint(12, 999)))
        return self._of_split(lambda: f"{rng.randint(1000, 98999):,}")

    def date(self) -> str:
        rng = self._rng
        return self._of_split(lambda: f"{rng.randint(1, 28)} {rng.choice(_MONTHS)}")

    def generic_key(self) -> str:
        rng = self._rng
        return rng.choice(self._keys) if rng.random() < 0.7 else self.word(1, 2).lower()

    def generic_value(self) -> str:
        """A value that nothing but the note can give: a made-up word, a number or a known word."""
        rng = self._rng
        draw = rng.random()
        if draw < 0.45:
            return self.word(1, 3)
        if draw < 0.55:
            return self.number()
        if draw < 0.7:
            return self.person()
        return rng.choice(self._allowed[rng.choice(sorted(self._allowed))])

    def value(self, kind: str) -> str:
        """A filling of `kind`: a key of the word lists or the name of a method here."""
        if kind in self._allowed:
            return self._rng.choice(self._allowed[kind])
        if kind == "award":
            return self._rng.choice(_AWARD_FORMS).format(x=self.word(1, 3))
        if kind in ("river", "region"):
            return self.word(1, 3)
        draw = {
            "person": self.person,
            "place": self.place,
            "street": self.street,
            "org": self.org,
            "building": self.building,
            "event": self.event,
            "ship": self.ship,
            "work": self.work,
            "thing": self.thing,
            "year": self.year,
            "number": self.number,
            "date": self.date,
        }[kind]
        return draw()

    def _of_split(self, draw: Callable[[], str]) -> str:
        while True:
            text = draw()
            if split_of(text) is self._split:
                return text
