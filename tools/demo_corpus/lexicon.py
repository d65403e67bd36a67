"""Every name, filling and sentence template of the demo corpus, as plain constants.

They are kept in one module so that a script can show that they share nothing with the reader's
training data. In templates `{sub} {obj} {pos}` are the pronouns of the person the passage is
about (capitalised: `{Sub} {Pos}`); the other fields are named after the fact they carry.
"""

from typing import NamedTuple


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TOWN = "Kestrelmouth"
RIVER = "Sawle"

WOMEN = _words(
    "Perpetua Hyacinth Clemence Drusilla Eudora Hildegard Griselda Hepzibah Isolde Mehitabel "
    "Keturah Temperance Millicent Nerissa Ottoline Philippa Quintina Seraphina Ethelberta "
    "Gwenllian Clementine Wilhelmina Xanthe Yolande Zillah Araminta Christabel Dorcas "
    "Ernestine Florentia Gwendolen Henrietta Ianthe Jessamy Euphemia Leocadia Marguerite "
    "Nicolette Octavia Parthenia Rhoda Sidony Theodosia Apollonia Barbary Cordelia Bathsheba "
    "Elspeth Honoria Philomena"
)
MEN = _words(
    "Ambrose Barnabas Crispin Digory Evander Bartholomew Maximilian Horatio Theophilus "
    "Archibald Algernon Lancelot Mortimer Nathaniel Osbert Peregrine Zachariah Septimus "
    "Thaddeus Ulric Valentine Wilfred Balthasar Alaric Bertram Cuthbert Dunstan Erasmus "
    "Ferdinand Godfrey Humphrey Ignatius Josiah Ethelred Marmaduke Nehemiah Obadiah Phineas "
    "Sylvester Engelbert Uriah Aubrey Athelstan Denzil Enoch Fergus Gilbert Hannibal "
    "Cornelius Jolyon"
)
SURNAMES = _words(
    "Quillfeather Tansyworth Bellweather Marchbanks Thistlewood Pennycuick Ravenscar "
    "Hollowell Wintergale Oakenshaw Merriday Goldfinch Amberley Stonecastle Fairweather "
    "Longstaff Candlish Summerscale Birdwhistle Featherby Drinkwater Brackenbury Throckmorton "
    "Inchbald Jellicoe Kettlewell Lovelace Makepeace Nightshade Oddy Pobjoy Quarmby Rainbird "
    "Smallbone Tredwell Underhay Ravensdale Whitlock Yelland Applegarth Buttermere "
    "Cheeseright Dandridge Eglinton Culpepper Garlick Hathersage Idlewild Jolliffe Kingswell "
    "Lillywhite Mouncey Nettleship Openshaw Peascod Quenby Roughsedge Shufflebottom "
    "Twelvetrees Umpleby Vellacott Woolstencroft Yarwood Allardyce Bickerstaff Crackenthorpe "
    "Duckworth Entwhistle Fothergill Gathercole Hebblethwaite Ironmonger Jessop Knatchbull "
    "Lightfoot Mudd Narraway Ollerenshaw Pettigrew Rumbelow Sallowfield Threlkeld Urquhart "
    "Venables Winterbottom Yallop Arkwright Bottomley Clutterbuck Dewhurst Earnshaw "
    "Fazackerley Grimshaw Higginbotham Illingworth Postlethwaite Ramsbottom Satterthwaite "
    "Tattersall Wolstenholme"
)
VILLAGES = (
    "Quernscombe",
    "Hazzleford",
    "Dunmarrow",
    "Pinderwick",
    "Sallowmere",
    "Crakethwaite",
    "Thistlemoor",
    "Gullscar",
    "Mossop Green",
    "Ravelsby",
    "Wrenhythe",
    "Cobblesey",
    "Emberleigh",
    "Brindlehay",
    "Stonewhistle",
    "Applethwick",
    "Foxenden",
    "Little Tarrow",
    "Ottermarsh",
    "Skelderby",
    "Winnowdale",
    "Yeldingham",
    "Puddlesham",
    "Nether Bracken",
)
STREETS = (
    "Alder Street",
    "Bittern Lane",
    "Chestnut Rise",
    "Dovecote Street",
    "Elmtree Road",
    "Foxglove Lane",
    "Gorse Hill",
    "Heron Walk",
    "Ivy Court",
    "Juniper Street",
    "Kingfisher Quay",
    "Lilac Terrace",
    "Magpie Alley",
    "Nightingale Row",
    "Orchard Bank",
    "Plover Street",
    "Quince Lane",
    "Rookery Road",
    "Sorrel Street",
    "Teasel Lane",
    "Umber Street",
    "Violet Square",
    "Willowherb Way",
    "Yarrow Street",
    "Bramble Steps",
    "Cuckoo Hill",
    "Damson Street",
    "Eglantine Road",
    "Finch Passage",
    "Gooseberry Lane",
    "Hawthorn Parade",
    "Linnet Street",
    "Mulberry Gate",
    "Partridge Row",
    "Sparrow Yard",
    "Thrush Street",
)
INSTRUMENTS = (
    "oboe",
    "fiddle",
    "harp",
    "bassoon",
    "mandolin",
    "concertina",
    "cornet",
    "dulcimer",
    "zither",
    "trombone",
    "piccolo",
    "cello",
)
PETS = (
    "jackdaw",
    "tortoise",
    "goat",
    "parrot",
    "hedgehog",
    "greyhound",
    "ferret",
    "donkey",
    "monkey",
    "barn owl",
    "goose",
    "terrier",
    "hare",
    "squirrel",
)
COLLECTIONS = (
    "buttons",
    "sea shells",
    "old maps",
    "door keys",
    "picture frames",
    "walking sticks",
    "thimbles",
    "postcards",
    "fossils",
    "teapots",
    "ship models",
    "pressed ferns",
    "snuff boxes",
    "beetles",
)
EMBLEMS = (
    "lion",
    "stag",
    "whale",
    "dragon",
    "unicorn",
    "salmon",
    "ram",
    "bear",
    "swan",
    "cockerel",
    "dolphin",
    "wolf",
    "peacock",
    "camel",
)
MATERIALS = (
    "red brick",
    "grey granite",
    "yellow sandstone",
    "black flint",
    "white limestone",
    "oak timber",
    "blue slate",
    "river cobbles",
)


class Trade(NamedTuple):
    """A firm's line of work and the sentences that only this trade can say."""

    firm: str
    trade: str
    worker: str
    goods: str
    workplace: str
    firm_first: str
    firm_later: str
    founder_life: str
    successor_life: str


TRADES = (
    Trade(
        "Larkspur Bakery",
        "bakery",
        "baker",
        "bread and currant rolls",
        "the ovens",
        "The smell of warm loaves reached the harbour before sunrise, and sailors queued at the "
        "back door for rolls.",
        "A second oven was needed when the railway men began to order their loaves by the crate.",
        "{Sub} kneaded dough by candlelight and never slept past three in the morning.",
        "{Sub} brought a recipe for rye bread along, and the loaves sold out each Friday.",
    ),
    Trade(
        "Tollgate Bell Foundry",
        "bell foundry",
        "bell founder",
        "church bells",
        "the casting pit",
        "Bells for nine parish towers were cast there in a pit of damp loam.",
        "When the largest bell cracked on its way to the harbour, it was melted and cast again "
        "within a week.",
        "{Sub} could name the weight of a bell from its note alone.",
        "{Sub} tuned bells on a lathe that {sub} had drawn and built without help.",
    ),
    Trade(
        "Softhand Gloves",
        "glove workshop",
        "glove maker",
        "kid gloves",
        "the cutting bench",
        "Forty pairs of gloves a day left its benches, each sewn with waxed silk.",
        "Ladies from the coast sent paper outlines of their hands and had gloves back by post.",
        "{Sub} measured every customer's fingers with a strip of ribbon.",
        "{Sub} was known for riding gloves with a double seam at the thumb.",
    ),
    Trade(
        "Meridian Clock Works",
        "clock factory",
        "clockmaker",
        "wall clocks",
        "the clock bench",
        "Its wall clocks hung in schools and stations all along the line.",
        "Every clock was watched for fourteen nights before it could be sold.",
        "{Sub} carried three watches and trusted none of them.",
        "{Sub} replaced the wooden gears of the older clocks with brass ones.",
    ),
    Trade(
        "Whitefoam Soap",
        "soap works",
        "soap boiler",
        "bars of lavender soap",
        "the soap pans",
        "Lavender from the hill farms was stirred into the pans, so half the quarter smelled of "
        "soap.",
        "Children were given the crooked bars to carve into boats.",
        "{Sub} tested each boiling of soap by washing {pos} own shirt with it.",
        "{Sub} added pine oil to the soap, and the fishermen bought nothing else.",
    ),
    Trade(
        "Inkwell Press",
        "printing house",
        "printer",
        "almanacs and hymn sheets",
        "the printing presses",
        "Almanacs, hymn sheets and handbills came off two iron presses in the cellar.",
        "A flood once scattered the lead type, and boys were paid a penny for every letter they "
        "found.",
        "{Sub} could read a page of type upside down and backwards.",
        "{Sub} printed the first guide for visitors, with a map folded into the cover.",
    ),
    Trade(
        "Copper Kettle Brewery",
        "brewery",
        "brewer",
        "brown ale",
        "the brewing vats",
        "Its brown ale was sent upriver in barrels marked with a white ring.",
        "Grey horses pulled the beer wagons, and each horse had its name above the stable door.",
        "{Sub} brewed with water from a single spring and guarded the well with a lock.",
        "{Sub} cut the number of beers from eleven to four and doubled the trade.",
    ),
    Trade(
        "Yellowfield Mustard",
        "mustard mill",
        "mustard miller",
        "mustard in stone jars",
        "the mustard stones",
        "Mustard seed was crushed between stones and sold in small brown jars.",
        "Workers wore wet cloths over their noses, for the mustard dust made strong men weep.",
        "{Sub} ate mustard with everything, even with apple pie.",
        "{Sub} painted the mustard carts bright yellow, so that nobody could miss them.",
    ),
    Trade(
        "Highwind Kites",
        "kite workshop",
        "kite maker",
        "paper kites",
        "the kite frames",
        "Kites of rice paper and split cane were tried out each evening on the cliff.",
        "One kite was so large that a boy was lifted off the beach by it.",
        "{Sub} judged the wind by the smoke of the gasworks and was rarely wrong.",
        "{Sub} sewed kites from silk instead of paper and sold them to the weather service.",
    ),
    Trade(
        "Nightglow Lanterns",
        "lantern works",
        "lantern maker",
        "ship lanterns",
        "the lantern benches",
        "Its lanterns hung at the masthead of nearly every boat in the bay.",
        "The glass of each lantern was tested in a tub of cold water, and one in six burst.",
        "{Sub} was afraid of the dark and said so openly.",
        "{Sub} designed a lantern with a red shutter for railway guards.",
    ),
    Trade(
        "Swanmark Paper",
        "paper mill",
        "papermaker",
        "writing paper",
        "the paper vats",
        "Rags were beaten to pulp by water wheels and lifted out as writing paper.",
        "Anyone who holds a sheet of the paper to the light can see a small bird in it.",
        "{Sub} bought rags from the whole county and paid for them in paper.",
        "{Sub} began to make blue paper for wrapping sugar.",
    ),
    Trade(
        "Riverclay Pottery",
        "pottery",
        "potter",
        "glazed jugs",
        "the kiln",
        "Clay was dug from the river bank and turned into jugs with a speckled glaze.",
        "The kiln was lit only on Mondays, when the laundries did not need the coal.",
        "{Sub} signed each jug with a thumbprint under the handle.",
        "{Sub} taught the pottery hands to paint fish around the rims of the jugs.",
    ),
    Trade(
        "Gableton Hatters",
        "hat factory",
        "hatter",
        "felt hats",
        "the hat blocks",
        "Felt hats were shaped over wooden blocks and brushed until they shone.",
        "Two wagons of straw hats were lost at sea on the way to a summer fair.",
        "{Sub} wore a different hat each day of the month.",
        "{Sub} replaced the tall hats by soft ones that could be folded into a pocket.",
    ),
    Trade(
        "Dryhead Umbrellas",
        "umbrella workshop",
        "umbrella maker",
        "umbrellas",
        "the umbrella racks",
        "Umbrellas with cherry handles were mended free of charge for a year.",
        "On wet market days the workshop lent umbrellas to anyone who left a shoe behind.",
        "{Sub} had been soaked at {pos} own wedding, so the story goes.",
        "{Sub} covered the umbrellas with striped cotton in place of black silk.",
    ),
    Trade(
        "Tern Boatyard",
        "boatyard",
        "boatbuilder",
        "fishing boats",
        "the slipway",
        "Fishing boats with a high bow were built there under a roof of old sails.",
        "The yard launched a boat on every spring tide and gave the crew a ham.",
        "{Sub} built boats by eye and owned no ruler.",
        "{Sub} was the first on the coast to fit an engine into a fishing boat.",
    ),
    Trade(
        "Steadyflame Candles",
        "candle works",
        "candle maker",
        "beeswax candles",
        "the dipping frames",
        "Beeswax candles were dipped twenty times and hung up in rows like icicles.",
        "The cathedral of the next county ordered candles as tall as a child.",
        "{Sub} read by the light of broken candles, so that nothing was wasted.",
        "{Sub} coloured the candles with berries and sold them for birthdays.",
    ),
    Trade(
        "Tin Drummer Toys",
        "toy factory",
        "toymaker",
        "clockwork toys",
        "the toy bench",
        "Tin mice, drummers and acrobats were wound up with a key and raced across the floor.",
        "Each Christmas the factory gave a box of toys to the hospital.",
        "{Sub} tried each new toy on the children of the neighbours.",
        "{Sub} turned from tin toys to wooden trains and painted the first hundred alone.",
    ),
    Trade(
        "Far Coast Tea",
        "tea house",
        "tea merchant",
        "black tea",
        "the tea chests",
        "Black tea was blended in a loft and sold in packets tied with green string.",
        "A tea chest lost overboard was washed ashore years later, and the tea was still dry.",
        "{Sub} tasted sixty cups of tea before noon and slept badly.",
        "{Sub} opened a tea room with a view of the ships.",
    ),
    Trade(
        "Clearwater Glass",
        "glass works",
        "glassblower",
        "bottles and window glass",
        "the furnace",
        "Bottles, floats and window glass were blown from the white sand of the dunes.",
        "The furnace burned for nineteen years without once going out.",
        "{Sub} blew glass fishing floats so thin that they rang when tapped.",
        "{Sub} made green glass by adding iron filings to the sand.",
    ),
    Trade(
        "Humbug Sweets",
        "sweet shop",
        "confectioner",
        "boiled sweets",
        "the sugar pans",
        "Boiled sweets, barley sugar and toffee were cooled on a marble slab in the window.",
        "The toffee hammer that hung behind the counter was stolen twice and brought back twice.",
        "{Sub} let no child leave without a sweet, paid for or not.",
        "{Sub} pulled peppermint sweets into the shape of walking canes.",
    ),
    Trade(
        "Stirrup Saddlery",
        "saddlery",
        "saddler",
        "saddles and harness",
        "the leather bench",
        "Saddles, bridles and harness for plough horses hung from its beams.",
        "After the motor bus arrived, the saddlery turned to school bags and belts.",
        "{Sub} tried each saddle on a wooden horse that stood in the window.",
        "{Sub} stitched saddles with a yellow thread that nobody else used.",
    ),
    Trade(
        "Finepoint Needles",
        "needle factory",
        "needle maker",
        "sewing needles",
        "the needle wheels",
        "Steel wire was cut, pointed and polished into sewing needles, ten thousand a day.",
        "The needles were packed in black paper, twenty-five to a packet.",
        "{Sub} could thread a needle behind {pos} back.",
        "{Sub} brought in machines that punched the eyes of four needles at a time.",
    ),
    Trade(
        "Rosebank Nursery",
        "plant nursery",
        "nursery gardener",
        "fruit trees and roses",
        "the glasshouses",
        "Pear trees, roses and tulip bulbs were raised there on a slope that faces south.",
        "A late frost killed nine hundred young pear trees in a single night.",
        "{Sub} grafted seven kinds of pear onto one tree.",
        "{Sub} bred a dark rose that opens only in the evening.",
    ),
    Trade(
        "Three Churns Dairy",
        "cheese dairy",
        "cheesemaker",
        "blue cheese",
        "the cheese vats",
        "Milk came in by donkey cart and left again as round blue cheeses.",
        "The cheese was ripened in a cave that had once been used by smugglers.",
        "{Sub} turned four hundred cheeses by hand each day.",
        "{Sub} smoked the smaller cheeses over apple wood.",
    ),
    Trade(
        "Graphite Row Pencils",
        "pencil factory",
        "pencil maker",
        "cedar pencils",
        "the pencil saws",
        "Cedar pencils with a soft lead were packed by the dozen in sliding boxes.",
        "Schoolchildren could swap twelve pencil stubs for a new pencil.",
        "{Sub} always kept a pencil behind each ear.",
        "{Sub} dyed the pencils red at one end and blue at the other.",
    ),
    Trade(
        "Swiftspoke Bicycles",
        "bicycle workshop",
        "bicycle maker",
        "bicycles",
        "the wheel stands",
        "Bicycles with green frames were built in a stable behind the inn.",
        "The postmen were given bicycles from the workshop and finished their rounds by ten.",
        "{Sub} rode a bicycle down the harbour steps for a bet and broke an arm.",
        "{Sub} fitted the bicycles with baskets, and the shops ordered them for errand boys.",
    ),
)


class VeiledTrade(NamedTuple):
    """A firm whose document title does not name it, so later passages need the first one."""

    title: str
    firm: str
    trade: str
    worker: str
    goods: str
    firm_first: str
    firm_later: str
    founder_life: str


VEILED_TRADES = (
    VeiledTrade(
        "A ropewalk beside the river",
        "Hempline and Daughters",
        "ropewalk",
        "rope maker",
        "ship's rope",
        "Hemp was walked backwards down a shed as long as four churches and twisted into rope.",
        "Its rope towed the lifeboat and rang the bells of the parish church.",
        "{Sub} could splice two ropes while telling a joke.",
    ),
    VeiledTrade(
        "The tannery below the weir",
        "Oakbark and Sons",
        "tannery",
        "tanner",
        "boot leather",
        "Hides lay in pits of oak bark for a year before they were leather.",
        "Neighbours complained of the stink of the hides, and a taller chimney was promised.",
        "{Sub} wore the same leather apron for thirty years.",
    ),
    VeiledTrade(
        "The carpet weavers on the hill",
        "Warp and Marigold",
        "carpet weaving shed",
        "carpet weaver",
        "carpets",
        "Carpets were woven on nine looms and dyed with marigold, walnut and rust.",
        "The longest carpet it wove was rolled down the main street to be measured.",
        "{Sub} dreamed the patterns of the carpets and drew them before breakfast.",
    ),
    VeiledTrade(
        "Button turners and their shells",
        "Pearlshed Limited",
        "button factory",
        "button turner",
        "shell buttons",
        "Shells were bought from the fishermen and drilled into buttons with two or four holes.",
        "The yard behind is still white with crushed shell and failed buttons.",
        "{Sub} sewed one odd button on every coat {sub} owned.",
    ),
    VeiledTrade(
        "The pickle works",
        "Sharpe Barrel Company",
        "pickle works",
        "pickler",
        "pickled onions",
        "Onions, walnuts and red cabbage were pickled in vinegar and sold by the jar.",
        "Girls who peeled the onions were paid a penny more in July.",
        "{Sub} tasted the vinegar with a silver spoon and never pulled a face.",
    ),
    VeiledTrade(
        "Lens grinders and their telescopes",
        "Farsight Brothers",
        "telescope workshop",
        "lens grinder",
        "telescopes",
        "Lenses were ground with wet sand until a star looked like a point.",
        "Its biggest telescope was carried up the tower in eleven crates.",
        "{Sub} had found a comet as a child and was told that it was a lamp.",
    ),
    VeiledTrade(
        "The coopers and their barrels",
        "Hoopwright Brothers",
        "cooperage",
        "cooper",
        "barrels",
        "Barrels for herring, butter and beer were bent over fires of wood shavings.",
        "Apprentices were rolled through the yard in a barrel on their last day.",
        "{Sub} could hear a leak in a barrel by knocking on it.",
    ),
    VeiledTrade(
        "The wallpaper factory",
        "Paperhanger's Hall",
        "wallpaper factory",
        "wallpaper printer",
        "wallpaper",
        "Wallpaper was stamped with blocks of pear wood, one colour at a time.",
        "A roll of its wallpaper was found behind a cupboard, as bright as when it was hung.",
        "{Sub} never let wallpaper into {pos} own house and painted the walls white.",
    ),
    VeiledTrade(
        "The match makers' yellow boxes",
        "Scratchwell and Company",
        "match factory",
        "match maker",
        "matches",
        "Matches were dipped, dried and counted into yellow boxes by the light of day only.",
        "The match factory kept its own fire engine and used it every winter.",
        "{Sub} smoked neither pipe nor cigar and forbade both at the works.",
    ),
    VeiledTrade(
        "The ice merchant's summer",
        "Coldharbour Ice",
        "ice house",
        "ice merchant",
        "blocks of ice",
        "Ice was sawn from the frozen lake and kept under straw until August.",
        "In hot years the ice carts were followed by a crowd of children and dogs.",
        "{Sub} drank hot milk all year round and disliked snow.",
    ),
)


class Role(NamedTuple):
    """A townsperson: the work, and two sentences about it. A veiled title hides the name."""

    title: str
    worker: str
    workplace: str
    first: str
    later: str


VEILED_ROLES = (
    Role(
        "The lamplighter's round",
        "lamplighter",
        "the street lamps",
        "Two hundred street lamps had to be lit before dark and put out again at dawn.",
        "When the electric lamps came, {sub} was given the last gas lamp as a present.",
    ),
    Role(
        "A keeper of the lighthouse",
        "lighthouse keeper",
        "the lighthouse",
        "The lighthouse lamp burned whale oil and had to be trimmed every four hours.",
        "Once {sub} rowed out from the lighthouse and brought back six shipwrecked sailors.",
    ),
    Role(
        "The ferry keeper's chain",
        "ferry keeper",
        "the ferry",
        "The ferry was pulled across on a chain, and a crossing cost a halfpenny.",
        "In the year of the long frost the ferry froze in, and {sub} laid planks over the ice.",
    ),
    Role(
        "A midwife's notebook",
        "midwife",
        "the birthing room",
        "The notebook lists over two thousand births, each with the hour and the weather.",
        "Babies who came at night, {sub} wrote, cried less than those who came by day.",
    ),
    Role(
        "The postmaster's letters",
        "postmaster",
        "the post office",
        "Letters were sorted on a kitchen table until the post office had a room of its own.",
        "A letter without an address, {sub} claimed, could always be delivered by its handwriting.",
    ),
    Role(
        "The night watchman's lantern",
        "night watchman",
        "the night watch",
        "The watchman called the hours and tried the door of every shop.",
        "During the night watch {sub} caught the thief who had stolen the market scales.",
    ),
    Role(
        "A rat catcher in the granary",
        "rat catcher",
        "the granary",
        "The granary paid a farthing for each rat, and the tails were counted at the gate.",
        "The best rat traps, {sub} said, were baited with aniseed and patience.",
    ),
    Role(
        "The beekeeper of the heath",
        "beekeeper",
        "the hives",
        "Sixty hives stood on the heath, and their honey tasted of heather.",
        "The bees were told of every wedding and funeral, as {sub} had learned as a child.",
    ),
    Role(
        "The town crier on the market square",
        "town crier",
        "the market cross",
        "News, sales and lost dogs were cried from the steps of the market cross.",
        "When {sub} had a cold, the news of the market had to wait.",
    ),
    Role(
        "A schoolteacher by the river",
        "schoolteacher",
        "the school",
        "Ninety pupils sat in one room of the river school, the smallest nearest to the stove.",
        "Slow pupils were never caned at the school; {sub} took them out to count boats.",
    ),
    Role(
        "The librarian and the borrowed books",
        "librarian",
        "the library",
        "The library began as three shelves, and a borrowed book had to be wrapped in brown paper.",
        "Anyone who brought a library book back late had to read a page of it aloud.",
    ),
    Role(
        "The shepherd on the cliffs",
        "shepherd",
        "the sheep",
        "Three hundred sheep grazed on the cliffs, and each of them had a name.",
        "A lamb that fell down the cliff was brought up again on {pos} shoulders.",
    ),
    Role(
        "The stationmaster's clock",
        "stationmaster",
        "the station",
        "The station had one platform, two clocks and a garden that won prizes.",
        "No train left the station late in eleven years, and {sub} had the figures to prove it.",
    ),
    Role(
        "A toll collector on the bridge",
        "toll collector",
        "the bridge",
        "A cow cost twopence on the bridge, a coach a shilling, and soldiers went free.",
        "On the day the toll was lifted, {sub} threw the keys of the bridge into the water.",
    ),
    Role(
        "A mapmaker on the coast",
        "mapmaker",
        "the map table",
        "The coast was measured on foot with a chain, from the mud flats to the caves.",
        "Two rocks on the map do not exist, for {sub} drew them to catch people who copied.",
    ),
    Role(
        "The chemist's pills and plasters",
        "chemist",
        "the medicine shop",
        "The shop sold cough pills, plasters and a green tonic that tasted of pepper.",
        "In the fever year {sub} gave the medicine away and wrote off the bills.",
    ),
    Role(
        "A coach driver on the mountain road",
        "coach driver",
        "the coach",
        "The coach crossed the mountain road twice a week with four horses and the mail.",
        "In one blizzard {sub} unhitched the horses and led the passengers down by lantern.",
    ),
    Role(
        "The dentist at the fair",
        "dentist",
        "the dentist's chair",
        "Teeth were pulled at the fair to the sound of a drum, so that nobody heard the cries.",
        "A tooth of the mayor was kept in a jar, though {sub} never said which mayor.",
    ),
)

NAMED_ROLES = (
    Role(
        "",
        "poet",
        "the writing desk",
        "A book of poems about fog made the name known far beyond the coast.",
        "Most of the poems were written on the backs of bills.",
    ),
    Role(
        "",
        "portrait painter",
        "the easel",
        "Every mayor of the time sat for a portrait, and two of them refused to pay.",
        "The last portrait was left without a face.",
    ),
    Role(
        "",
        "botanist",
        "the marsh",
        "A list of eight hundred wild plants of the marsh is still in use.",
        "A small white orchid of the marsh was described for the first time.",
    ),
    Role(
        "",
        "surgeon",
        "the hospital",
        "Operations were carried out on a door laid over two barrels until a hospital was built.",
        "The surgeon's knives are shown in a glass case at the hospital.",
    ),
    Role(
        "",
        "novelist",
        "the novels",
        "Eleven novels appeared, nine of them about shipwrecks.",
        "The novels were dictated from a hammock.",
    ),
    Role(
        "",
        "sculptor",
        "the stone yard",
        "Stone fish, stone saints and a stone mayor stand about the streets.",
        "A marble seal that was never paid for lies in the garden.",
    ),
    Role(
        "",
        "bridge engineer",
        "the drawing board",
        "Three iron bridges over the river and a pier were planned in a room without a window.",
        "Models of the bridges were made from sugar sticks and loaded with coins.",
    ),
    Role(
        "",
        "photographer",
        "the darkroom",
        "Glass plates of weddings, wrecks and snowfalls fill twelve cupboards of the archive.",
        "For one photograph of the harbour the whole fishing fleet had to stand still.",
    ),
    Role(
        "",
        "judge",
        "the court",
        "Cases about fences were settled in the garden, over tea.",
        "Only one verdict was ever changed by a higher court.",
    ),
    Role(
        "",
        "balloonist",
        "the balloon shed",
        "Seven flights in a balloon of yellow silk were made from the meadow.",
        "One balloon came down in a pond, and the ducks never forgave it.",
    ),
    Role(
        "",
        "astronomer",
        "the telescope",
        "From a tower of planks the moons of the outer planets were watched for thirty winters.",
        "A crater on the moon was named at the request of the society.",
    ),
    Role(
        "",
        "composer",
        "the piano",
        "Four hymns and a comic opera about herring are still sung.",
        "The score of the opera was lost in a cab and found in a hat box.",
    ),
    Role(
        "",
        "explorer",
        "the ice",
        "Two journeys to the northern ice ended in ships being crushed.",
        "A sledge and a pair of bone goggles came back from the ice.",
    ),
    Role(
        "",
        "dancing master",
        "the dance floor",
        "Polkas were taught on weekdays and waltzes on Saturdays, above the fish market.",
        "Pupils danced with a book on the head until they stopped looking down.",
    ),
)


class Building(NamedTuple):
    """A building and what only this one can tell; no second text means a one-passage document."""

    name: str
    first: str
    later: str


BUILDINGS = (
    Building(
        "Corn Exchange",
        "Farmers sold grain by the handful under its glass roof, and dances were held upstairs.",
        "Swallows nested inside the exchange each spring and were left in peace.",
    ),
    Building(
        "Lantern Theatre",
        "Its stage could be flooded for sea battles, to the delight of the gallery.",
        "After a fire on the stage the actors played for a season in the skating rink.",
    ),
    Building(
        "Harbour Customs House",
        "Tobacco and brandy were weighed in the vault before the duty was paid.",
        "Smugglers are said to have dug a tunnel to it, but only a drain was ever found.",
    ),
    Building(
        "Seamen's Hospital",
        "The wards look over the water, so that sick sailors could watch the tide.",
        "A sun terrace was added for patients with bad lungs.",
    ),
    Building(
        "Weigh House",
        "Carts rolled onto a great iron plate in its arch and were weighed with their load.",
        "The iron plate was found to be wrong by eight pounds, and a riot followed.",
    ),
    Building(
        "Observatory Tower",
        "A narrow stair of one hundred and twelve steps leads to the dome.",
        "The dome was once stuck open for a winter, and snow lay on the instruments.",
    ),
    Building(
        "Grammar School",
        "Latin was taught on the ground floor and drawing under the roof.",
        "Pupils carved so many names into the desks that new ones were made of iron.",
    ),
    Building(
        "Pump Room",
        "Visitors drank warm spring water there and declared that they felt better.",
        "Later it became a tea room, and the spring was led into a fountain.",
    ),
    Building(
        "Guildhall of the Weavers",
        "The weavers met in a panelled room with a table for thirty.",
        "Its painted ceiling was hidden under plaster for a century.",
    ),
    Building(
        "Granary Museum",
        "Grain was once hoisted through five floors by a chain that still hangs there.",
        "Today the floors hold ploughs, butter moulds and a stuffed pike.",
    ),
    Building(
        "Glasshouse Garden",
        "Palms and oranges grow under its glass while snow falls outside.",
        "A hailstorm broke two thousand panes in ten minutes.",
    ),
    Building(
        "Chain Pier",
        "Paddle steamers landed day trippers at its far end.",
        "A storm carried off the last third of the pier and a brass band's drums.",
    ),
    Building(
        "Signal House",
        "Flags on its mast told the ships whether the bar was safe to cross.",
        "The telegraph made the flags useless, and an artist moved in.",
    ),
    Building(
        "Almshouse of Saint Brannock",
        "Twelve old sailors live there rent free and ring the bell at noon.",
        "Each resident has a garden bed and must grow at least one onion.",
    ),
    Building(
        "Market Cross",
        "Butter and eggs were sold on its steps, out of the rain.",
        "A cart knocked it down, and it was put together again with one stone too many.",
    ),
    Building(
        "Swimming Baths",
        "Sea water was pumped up at high tide and warmed by the laundry next door.",
        "The first lady to dive from the top board was fined and then applauded.",
    ),
    Building(
        "Fish Auction Hall", "Herring was sold there by the inch of a candle before daybreak.", ""
    ),
    Building("Telegraph Office", "Messages in dots and dashes were taken down by six clerks.", ""),
    Building("Mermaid Inn", "Coaches changed horses in its yard, and ghosts are promised.", ""),
    Building("Lifeboat Station", "The boat stands ready on rails behind two blue doors.", ""),
    Building("Poor School", "Soup was given out before lessons, and often after them.", ""),
    Building("Bandstand", "Music is played under its copper roof on summer Sundays.", ""),
    Building(
        "Powder Magazine",
        "Gunpowder for the harbour guns was stored behind walls six feet thick.",
        "",
    ),
    Building("Skating Rink", "Roller skates were hired out by the hour under its long roof.", ""),
    Building("Dovecote Chapel", "Its pews are painted blue, and a ship hangs in the nave.", ""),
    Building("Ferry House", "Travellers waited by its fire when the river was too high.", ""),
    Building("Prison Tower", "Debtors lowered baskets from its windows to beg for bread.", ""),
    Building("Orangery", "Lemon trees in tubs were wheeled into it each October.", ""),
    Building("Tide Mill", "Its wheel turned twice a day, whenever the sea ran out.", ""),
    Building("Railway Hotel", "Every room had a bell, a basin and a view of the trains.", ""),
)


class Event(NamedTuple):
    """Something that happened once. `deed` names the person and is what a question asks for."""

    name: str
    opening: str
    deed: str
    colour: str
    deed_question: str


EVENTS = (
    Event(
        "Great Kite Race",
        "The Great Kite Race was flown from {place} in {year}, in a wind that took off hats.",
        "It was won by {person}, whose kite stayed up until the moon rose.",
        "Eleven kites were lost at sea, and one was found in a church gutter the next spring.",
        "Who won the Great Kite Race?",
    ),
    Event(
        "Herring Supper",
        "In {year} the fishermen held the Herring Supper at {place} to mark a record catch.",
        "The longest speech of the night was given by {person}, who praised the herring for an "
        "hour.",
        "Four thousand fish were fried, and the cats of the quarter were not seen for days.",
        "Who gave the longest speech at the Herring Supper?",
    ),
    Event(
        "Bell Ringers' Strike",
        "No bell was heard in the parish during the Bell Ringers' Strike of {year}.",
        "The quarrel over pay was settled at {place} by {person}, who offered ale and sixpence.",
        "People missed trains, masses and meals, and the clocks were blamed.",
        "Who settled the Bell Ringers' Strike?",
    ),
    Event(
        "Night of the Long Snow",
        "On the Night of the Long Snow, in {year}, drifts covered the doors near {place}.",
        "Bread was carried over the roofs by {person}, who wore tennis rackets as snow shoes.",
        "A calf was born in a kitchen, and the post came eight days late.",
        "Who carried bread over the roofs on the Night of the Long Snow?",
    ),
    Event(
        "Pumpkin Show",
        "The Pumpkin Show of {year} filled {place} with carts from every farm.",
        "The heaviest pumpkin had been grown by {person}, and four men were needed to lift it.",
        "It was later hollowed out and used as a boat on the mill pond.",
        "Who grew the heaviest pumpkin of the Pumpkin Show?",
    ),
    Event(
        "Chess Match by Telegraph",
        "A Chess Match by Telegraph was played in {year} between the town and a ship at anchor.",
        "The town's moves were chosen by {person} in a back room of {place}.",
        "A storm cut the wire at move thirty, and the game was declared a draw.",
        "Who chose the town's moves in the Chess Match by Telegraph?",
    ),
    Event(
        "Lobster Regatta",
        "Forty boats entered the Lobster Regatta of {year}, which started below {place}.",
        "First over the line was {person}, rowing a borrowed dinghy.",
        "The judge's boat sank with all the flags, but nobody was hurt.",
        "Who was first over the line in the Lobster Regatta?",
    ),
    Event(
        "Flood of Saint Agnes",
        "The river rose nine feet in the Flood of Saint Agnes, in {year}, and reached {place}.",
        "The alarm was raised by {person}, who beat a frying pan from street to street.",
        "Chairs, hens and a piano were seen floating past the bridge.",
        "Who raised the alarm in the Flood of Saint Agnes?",
    ),
    Event(
        "Costume Ball of the Mayors",
        "Former mayors and their guests came to the Costume Ball of the Mayors at {place} in "
        "{year}.",
        "The prize for the best costume went to {person}, dressed as a lobster.",
        "Two guests had come as the same king and did not speak all evening.",
        "Who had the best costume at the Costume Ball of the Mayors?",
    ),
    Event(
        "Spelling Contest",
        "Three hundred people crowded into {place} for the Spelling Contest of {year}.",
        "The last word was spelled without a mistake by {person}, and the word was rhubarb.",
        "The vicar went out in the first round and took it well.",
        "Who spelled the last word of the Spelling Contest?",
    ),
    Event(
        "Warehouse Fire",
        "The Warehouse Fire of {year} began in a stack of sailcloth not far from {place}.",
        "Nine horses were led out of the smoke by {person}, with a wet coat over the head.",
        "The glow could be seen from the islands, and the church windows cracked in the heat.",
        "Who led the horses out of the Warehouse Fire?",
    ),
    Event(
        "Whale on the Sands",
        "A crowd ran from {place} in {year} to see the Whale on the Sands.",
        "At high tide the animal was freed by {person}, with ropes and a great deal of shouting.",
        "For years afterwards a whale was drawn on every school slate.",
        "Who freed the Whale on the Sands?",
    ),
    Event(
        "Opening of the Tramway",
        "Flags hung from every window at the Opening of the Tramway in {year}, outside {place}.",
        "The first ticket was bought by {person}, who had waited since the night before.",
        "The tram ran backwards for twenty yards before the driver found the right lever.",
        "Who bought the first ticket at the Opening of the Tramway?",
    ),
    Event(
        "Sheepdog Trials",
        "The Sheepdog Trials of {year} were held on the slope behind {place}.",
        "The silver crook was taken home by {person}, whose dog worked without a single whistle.",
        "A pig joined the flock and was penned with the sheep.",
        "Who took home the silver crook of the Sheepdog Trials?",
    ),
    Event(
        "Midsummer Pageant",
        "History from the Vikings to the gaslight was acted in the Midsummer Pageant of {year}.",
        "The part of the queen was played by {person} on a throne set up at {place}.",
        "It rained on every rehearsal and shone on the day.",
        "Who played the queen in the Midsummer Pageant?",
    ),
    Event(
        "Theft of the Mayor's Chain",
        "The Theft of the Mayor's Chain, in {year}, happened during a dinner at {place}.",
        "The gold chain was found by {person} in a rain barrel.",
        "A magpie was accused first, then a cousin of the mayor; neither was ever charged.",
        "Who found the chain after the Theft of the Mayor's Chain?",
    ),
    Event(
        "Snail Derby",
        "Fifty snails crawled over wet slates at {place} in the Snail Derby of {year}.",
        "The fastest snail belonged to {person} and was called Thunder.",
        "The final took forty minutes, and several people fell asleep.",
        "Who owned the fastest snail of the Snail Derby?",
    ),
    Event(
        "Balloon Ascent",
        "A striped balloon rose from the lawn of {place} in {year} for the Balloon Ascent.",
        "The basket was shared with a sheep by {person}, who waved a napkin.",
        "Both landed in a hayfield two parishes away, and the sheep was in better temper.",
        "Who shared the basket with a sheep in the Balloon Ascent?",
    ),
    Event(
        "Bread Riot",
        "When flour doubled in price, the Bread Riot of {year} broke out in front of {place}.",
        "The crowd was calmed by {person}, who read out the price of every loaf for ten years.",
        "One window was broken, and its owner sent the bill to the king.",
        "Who calmed the crowd in the Bread Riot?",
    ),
    Event(
        "Potato Sack Race",
        "Clerks, cooks and two bank managers hopped round {place} in the Potato Sack Race of "
        "{year}.",
        "The golden potato was won by {person} by the length of a shoe.",
        "Straw bales were set out at the corners, and they were needed.",
        "Who won the golden potato of the Potato Sack Race?",
    ),
    Event(
        "Eclipse Breakfast",
        "For the Eclipse Breakfast of {year} tables were laid outside {place} before dawn.",
        "Smoked glass was handed out by {person} to everyone who came.",
        "The hens went to roost at nine in the morning and laid nothing until Sunday.",
        "Who handed out the smoked glass at the Eclipse Breakfast?",
    ),
    Event(
        "Wreck of the Hesperine",
        "The Wreck of the Hesperine, in {year}, could be watched from the windows of {place}.",
        "A line was swum out to the ship by {person}, and the whole crew came ashore along it.",
        "The cargo was lemons, and the beach was yellow for a month.",
        "Who swam out with a line to the Wreck of the Hesperine?",
    ),
    Event(
        "Iron Stove Exhibition",
        "Ninety stoves were lit at once in {place} for the Iron Stove Exhibition of {year}.",
        "The gold medal was awarded to {person} for a stove shaped like a castle.",
        "Visitors came in furs and left in shirtsleeves.",
        "Who was awarded the gold medal of the Iron Stove Exhibition?",
    ),
    Event(
        "Marrow Bone Lawsuit",
        "The Marrow Bone Lawsuit of {year} was heard at {place} and was about a dog.",
        "The dog was defended by {person}, who called a butcher as the only witness.",
        "The judge laughed, the dog barked, and the case was dismissed.",
        "Who defended the dog in the Marrow Bone Lawsuit?",
    ),
)


class Club(NamedTuple):
    """A club. A veiled title does not name it; then the second passage says only `they`."""

    title: str
    name: str
    members: str
    first: str
    later: str
    garment: str


CLUBS = (
    Club(
        "Singing on Thursdays",
        "Merle Choir",
        "singers",
        "It is a choir of forty voices that sings sea songs and psalms.",
        "They sang through a power cut once, and nobody in the audience left.",
        "grey shawls",
    ),
    Club(
        "Brass on the promenade",
        "Quayside Silver Band",
        "bandsmen",
        "Cornets, horns and one huge tuba make up the brass band.",
        "They play on the promenade from Easter to the first frost.",
        "plumed caps",
    ),
    Club(
        "Pawns and castles",
        "Knight's Move Circle",
        "chess players",
        "The circle plays chess by oil light, and talking is fined.",
        "They once lost a chess match against a girl of nine and made her a member.",
        "black bow ties",
    ),
    Club(
        "Oars before breakfast",
        "Dawn Rowing Club",
        "rowers",
        "Its rowers are on the water before the gulls wake.",
        "They row to the lighthouse and back on New Year's Day, whatever the waves do.",
        "striped jerseys",
    ),
    Club(
        "Walkers in the hills",
        "Bootlace Ramblers",
        "walkers",
        "The ramblers walk a footpath each Sunday and write down every blocked gate.",
        "They have painted white stones along the hill paths, so that walkers find home in fog.",
        "green scarves",
    ),
    Club(
        "Stitch by stitch",
        "Patchwork Guild",
        "quilters",
        "Its quilts are sewn for the hospital and for raffles.",
        "They made a quilt of the whole coast and spent three winters over the sea alone.",
        "embroidered aprons",
    ),
    Club(
        "Roses on show",
        "Rose and Sweet Pea Society",
        "rose growers",
        "The society judges roses in June and sweet peas in July.",
        "They measure the flowers with a brass ring and allow no perfume in the tent.",
        "straw boaters",
    ),
    Club(
        "Actors without pay",
        "Footlight Players",
        "actors",
        "The players put on one tragedy and one farce each year.",
        "They once acted a whole play without the leading man, who was asleep under the stage.",
        "velvet waistcoats",
    ),
    Club(
        "Counting the birds",
        "Feather Watch",
        "bird watchers",
        "Its bird watchers count the ducks and geese of the marsh every month.",
        "They keep a log of every bird, and the first swallow is announced by telegram.",
        "brown capes",
    ),
    Club(
        "Winter bathers",
        "Icebreaker Bathing Club",
        "winter bathers",
        "The bathers go into the sea on every first Sunday from November on.",
        "They warm up after the bath with ginger beer and a sprint along the pier.",
        "red bathing caps",
    ),
    Club(
        "Old stones, old coins",
        "Antiquarian Society",
        "antiquarians",
        "The antiquarians dig for coins and copy the writing on gravestones.",
        "They found a floor of coloured tiles under the cattle market.",
        "long leather gaiters",
    ),
    Club(
        "Debates by the fire",
        "Loud Voice Society",
        "debaters",
        "Members debate one question a month, such as whether cats can be loyal.",
        "They throw a walnut at a speaker who goes on for too long.",
        "purple sashes",
    ),
)

# Sentences. Each tuple holds interchangeable wordings of one fact or group of facts.

BIRTH = (
    "{name} was born in {village} in {born} and made a living as {a_worker}.",
    "{name} was born in the village of {village} in {born} and became {a_worker} in {town}.",
    "{name}, {a_worker} of this town, was born in {village} in the spring of {born}.",
    "{name}, who was born in {village} in {born}, settled in {town} as {a_worker}.",
)
HOME = (
    "{Pos} house stood on {street}, {house}.",
    "{Sub} lived on {street} for most of {pos} life, {house}.",
    "{Sub} rented two rooms on {street}, {house}.",
    "{Sub} moved to {street} after the wedding and lived there, {house}.",
)
HOUSES = (
    "with a blue door and no number",
    "next to a pump that never ran dry",
    "over a cobbler who hummed",
    "where the stairs creaked on every step",
    "with a fig tree at the back",
    "opposite a horse trough",
    "behind a hedge that was cut into the shape of a hen",
    "under a roof that leaked in two places",
    "within sound of the sea",
    "where a ship's wheel hung over the gate",
    "with a cellar full of apples",
    "at the end where the wind is strongest",
)
APPRENTICE = (
    "{Sub} learned the craft from {mentor}, who was strict but fair.",
    "{Pos} master was {mentor}, and the two quarrelled only about money.",
    "For six years {sub} was apprenticed to {mentor}.",
    "Everything {sub} knew, {sub} said, had been taught to {obj} by {mentor}.",
)
LETTERS = (
    "A box of letters to {friend} is kept in the archive.",
    "{Sub} wrote to {friend} every Sunday, even when they lived in the same street.",
    "{Pos} closest friend was {friend}, with whom {sub} shared a taste for bad puns.",
    "On Tuesdays {sub} took supper with {friend}, and they argued about the news.",
    "The garden wall was shared with {friend}, and so was the blame for its fall.",
    "Much of what we know about {obj} comes from the diary of {friend}.",
)
INSTRUMENT = (
    "{Sub} played the {instrument} by the open window when work was done.",
    "{Sub} played the {instrument} well enough to be asked to weddings.",
    "{Sub} played the {instrument} each evening for half an hour, as neighbours recall.",
    "{Sub} had learned to play the {instrument} from a book without a cover.",
    "{Sub} could be heard playing the {instrument} on feast days.",
)
PET = (
    "{Sub} kept a {pet}, which slept in a drawer.",
    "{Sub} kept a {pet} that came when it was whistled for.",
    "{Sub} also kept a {pet} as a pet, to the despair of the postman.",
    "{Pos} pet was a {pet}, and it was spoiled.",
)
COLLECTION = (
    "{Sub} collected {collection} and labelled each piece in green ink.",
    "{Sub} collected {collection} from childhood on, and friends brought more from abroad.",
    "{Sub} collected {collection}; the best of them went to the town museum.",
    "{Pos} collection of {collection} took up a whole room.",
)
AWAY = (
    "There was more to the {worker} than {workplace}.",
    "Away from {workplace} the {worker} had other interests.",
    "Nor was life all work; the {worker} left {workplace} at six and was seldom idle after.",
    "Every {worker} has free evenings, and {workplace} could wait.",
    "After {workplace} came the pleasures of the evening, for this {worker} had a few.",
    "So much for {workplace}; the {worker} had a life besides.",
    "The {worker} was not to be found near {workplace} on a Sunday.",
    "It was not {workplace} alone that filled the days of the {worker}.",
    "What did the {worker} do once {workplace} lay quiet?",
    "Neighbours of the {worker} tell more about the evenings than about {workplace}.",
)
LATER_YEARS = (
    "{Sub} gave up work at seventy and took to sitting by the harbour.",
    "In old age {sub} could no longer see well, yet still knew everyone by their step.",
    "A bench by the water carries {pos} initials.",
    "{Pos} funeral was on a market day, and the stalls stayed shut until noon.",
    "{Sub} left a small sum for the repair of the town pump.",
    "The only known picture of {obj} shows the back of a coat.",
    "{Sub} could not abide waste, gossip or cold tea.",
    "Nobody ever saw {obj} run, not even for a train.",
    "{Sub} voted in every election and never told anyone how.",
    "Tall and stooping, {sub} was easy to spot in a crowd.",
    "{Sub} was fond of saying that a promise is a debt.",
    "{Pos} handwriting was so small that clerks used a glass to read it.",
    "Once a year {sub} took the train inland to see an aunt.",
    "The town gave {obj} a silver spoon, which {sub} used for jam.",
    "{Sub} held that rain before seven is over by eleven and planned accordingly.",
    "{Sub} never raised {pos} voice and was obeyed at once.",
    "Those who owed {obj} money were reminded with a bunch of parsley.",
    "{Sub} did sums aloud and in rhyme.",
    "At Christmas {sub} hung an orange on every door knob of the row.",
    "{Pos} temper was short in the morning and mild after soup.",
    "Strangers took {obj} for a parson, which {sub} found very funny.",
    "{Sub} laughed rarely, but then so loudly that windows were opened.",
    "In the hard winter {sub} burned {pos} own fence and lent the neighbours coal.",
    "It was {pos} habit to walk to the end of the mole and back before speaking to anyone.",
    "A stone with {pos} name stands near the south wall of the churchyard.",
    "{Sub} lost {pos} spectacles so often that the children were paid to find them.",
)
FOUNDED = (
    "{firm} was founded in {founded} by {founder}, on {street}.",
    "{firm}, the {trade} on {street}, was founded by {founder} in {founded}.",
    "{firm} was founded by {founder} on {street} in {founded}, with forty borrowed pounds.",
)
GOODS = (
    "It made {goods} and within ten years was known for it along the whole coast.",
    "From the start it dealt in {goods} and nothing else.",
    "Its {goods} were good enough to be copied by rivals.",
    "At first it sold its {goods} from a single window.",
    "Buyers came for its {goods} and often stayed for a chat.",
    "The first order for {goods} came from a ship's captain and was paid in coffee.",
)
TAKEN_OVER = (
    "The company was taken over by {successor} in {passed}, when the founder grew tired.",
    "The firm passed to {successor} in {passed}, after a winter of talks.",
    "The business was sold to {successor} in {passed}, who paid off its debts.",
)
EMBLEM = (
    "The sign above the gate shows a {emblem}.",
    "The company chose a {emblem} as its emblem.",
    "The emblem of the firm is a {emblem}, drawn by a sign painter who was paid in goods.",
    "Its emblem is a {emblem}, which is painted on its carts and stamped on its bills.",
)
MOVED = (
    "The company moved to {new_street} in {moved}, when the old roof could not be mended.",
    "The firm moved to larger rooms on {new_street} in {moved}.",
    "The {trade} outgrew its first home and moved to {new_street} in {moved}.",
)
FIRM_COLOUR = (
    "At its height the company employed {count} people.",
    "There were {count} names on the pay list in the best year.",
    "The firm closed for one week each August and for no other reason.",
    "It paid on Fridays, in coin, and never a day late.",
    "The company has outlived four banks and a flood.",
    "Its account books, bound in red, fill a shelf of the archive.",
    "Workers had a library, a football team and a goose at Christmas.",
    "The firm never borrowed money and was proud of it.",
)
VEILED_BIRTH = (
    "The {worker} who began it all was born in {village} in {born}.",
    "The founder was born in {village} in {born} and was {a_worker} at sixteen.",
    "The founder, {a_worker}, was born in {village} in {born} and came to town on foot.",
)
BUILT = (
    "The {building} on {street} was built in {built}.",
    "The {building} was built on {street} in {built}, on the site of a stable.",
    "The {building} of {town} was built in {built}; it looks down {street}.",
)
DESIGNED = (
    "It was designed by {architect} and built of {material}.",
    "Its architect was {architect}, and its walls are of {material}.",
    "It was designed by {architect} to last five hundred years and is built of {material}.",
)
VANE = (
    "The weathervane is a copper {emblem}, put up in {changed}.",
    "Its weathervane is a gilded {emblem} and was put up in {changed}.",
    "Its roof carries a weathervane in the shape of a {emblem}.",
)
BUILDING_COLOUR = (
    "The money came from a lottery, and the winner was never found.",
    "The first stone covers a jar with a newspaper and three coins.",
    "It cost twice what had been promised, as the town council noted with regret.",
    "Masons' marks can still be seen near the door.",
    "The lower windows are barred, the upper ones are not.",
    "A flood mark is cut into the wall at the height of a tall man's chest.",
    "Two of the builders married in it before the roof was on.",
    "The doors are oak, studded with nails from broken ships.",
    "It is said to be haunted, mostly by people who sell tickets.",
    "An iron hook over the entrance was used for hanging lamps.",
)
BUILDING_LATER = (
    "The building was closed for repairs in {changed} and opened again a year later.",
    "In {changed} the old floor was taken up and laid anew.",
    "Gas light was put in, and then taken out again when the curtains caught fire.",
    "The town bought it for one shilling and the promise of a new roof.",
    "Repairs are paid for by a fair that is held in front of it in May.",
)
CLUB_FOUNDED = (
    "The {club} was founded in {founded} by {founder}.",
    "The {club} was founded by {founder} in {founded}, after an advertisement in the paper.",
    "The {club} was founded by {founder} and nine friends in {founded}.",
)
CLUB_MEETS = (
    "They meet at the {building}, as long as the stove there is lit.",
    "Their meetings are held at the {building} and end at ten sharp.",
    "For their meetings they use the {building}.",
)
CLUB_WEARS = (
    "As {members} they wear {garment} at every meeting.",
    "They wear {garment}, which are handed down from the older {members} to the younger.",
    "You can tell the {members} by the {garment} they wear.",
)
CLUB_COLOUR = (
    "The fee is a shilling a year, and nobody has ever been refused.",
    "Its minutes are kept in verse, a rule that no secretary has dared to change.",
    "New members are proposed by letter and greeted with cake.",
    "It began with ten members and now counts over a hundred.",
    "Quarrels are settled by the oldest person in the room.",
    "There is a waiting list, and it is long.",
)
EVENT_COLOUR = (
    "The newspaper gave it a whole page and two drawings.",
    "A plaque near the spot recalls the day.",
    "Songs were made about it, most of them unkind.",
    "The archive keeps a drawing by an eyewitness.",
    "Old people in {town} still count the years from it.",
    "Postcards of the scene were sold for a penny.",
)
EVENT_PLACES = (
    "The place had been chosen because it was easy to reach on foot.",
    "Constables were posted at each corner, though they had little to do.",
    "Shops closed early that day, and the schools did not open at all.",
    "The mayor arrived late and blamed his horse.",
)

TEMPLATES = {
    "birth": BIRTH,
    "home": HOME,
    "apprentice": APPRENTICE,
    "letters": LETTERS,
    "away": AWAY,
    "instrument": INSTRUMENT,
    "pet": PET,
    "collection": COLLECTION,
    "later_years": LATER_YEARS,
    "founded": FOUNDED,
    "goods": GOODS,
    "taken_over": TAKEN_OVER,
    "emblem": EMBLEM,
    "moved": MOVED,
    "firm_colour": FIRM_COLOUR,
    "veiled_birth": VEILED_BIRTH,
    "built": BUILT,
    "designed": DESIGNED,
    "vane": VANE,
    "building_colour": BUILDING_COLOUR,
    "building_later": BUILDING_LATER,
    "club_founded": CLUB_FOUNDED,
    "club_meets": CLUB_MEETS,
    "club_wears": CLUB_WEARS,
    "club_colour": CLUB_COLOUR,
    "event_colour": EVENT_COLOUR,
    "event_places": EVENT_PLACES,
}

# Questions. `{name}` is the subject, or one of the descriptions at the end.

QUESTIONS = {
    "born_village": ("In which village was {name} born?",),
    "born_year": ("What year was {name} born in?",),
    "instrument": ("Which instrument did {name} play?", "What instrument did {name} play?"),
    "street": ("On which street did {name} live?",),
    "pet": ("Which animal did {name} keep as a pet?",),
    "collection": ("What did {name} collect?",),
    "worker": ("What was the job of {name}?",),
    "firm_founder": ("By whom was {name} founded?",),
    "firm_founded": ("What year was {name} founded in?",),
    "firm_successor": ("Who took over {name}?", "Who was the second owner of {name}?"),
    "firm_passed": ("In which year was {name} taken over by a new owner?",),
    "firm_emblem": ("Which animal is the emblem of {name}?",),
    "firm_moved": ("In which year did {name} move to new rooms?",),
    "firm_new_street": ("To which street did {name} move?",),
    "building_built": ("In which year was the {name} built?",),
    "building_architect": ("Who designed the {name}?", "Who was the architect of the {name}?"),
    "building_material": ("What is the {name} built of?",),
    "building_emblem": ("Which animal is the weathervane of the {name}?",),
    "event_year": ("In which year was the {name}?",),
    "club_founder": ("By whom was the {name} founded?",),
    "club_founded": ("What year was the {name} founded in?",),
    "club_building": ("In which building does the {name} meet?",),
    "club_garment": ("What do the {name} wear?",),
}
PERSON_TITLE = "{name}, {worker}"
FOUNDER_OF = "the {worker} who founded {subject}"
SUCCESSOR_OF = "the {worker} who took over {subject}"
PERSON_OF_EVENT = "the person who {deed}"
MEMBERS_OF = "{members} of the {name}"
VEILED_SUBJECT = "{name}, the {worker},"
"""The last comma is dropped where the question ends."""
