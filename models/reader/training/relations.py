"""What can be said about a subject, and how it is asked: many wordings of each relation.

Slots of a statement: {S}/{s} the subject at the start of a sentence and inside it, {P}/{p} its
possessive, {o} its object form, {v} the value, {av} the value with its article. A question has
{n}, the subject's name or a description of it.
"""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Relation:
    """One attribute of a kind of subject.

    value: the kind of filling (a subject kind, or a key of `fillings`).
    descriptors: noun phrases for the value, given only where the value is itself a subject.
    inverse: questions that give the value {v} and ask for the subject.
    """

    key: str
    subject: str
    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    descriptors: tuple[str, ...] = ()
    inverse: tuple[str, ...] = ()

    def plain(self, wordings: int) -> "Relation":
        """With the first `wordings` questions, and statements whose subject precedes the value.

        Otherwise a network that reads from left to right meets the value before it can know whose
        it is.
        """
        statements = tuple(s for s in self.statements if _SUBJECT_FIRST.search(s))
        return replace(
            self,
            statements=statements[:wordings],
            questions=self.questions[:wordings],
            inverse=(),
        )


ALL_PLAIN = 99  # more plain wordings than any relation has
_SUBJECT_FIRST = re.compile(r"{[sSpPo]}.*{a?v}")


def _lines(block: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in block.strip().splitlines() if line.strip())


_TABLE = """
@ person born_in place
{S} was born in {v}.
{S} came into the world in {v}.
{P} birthplace is {v}.
It was in {v} that {s} was born.
{S} is a native of {v}.
{S} hails from {v}.
Born in {v}, {s} grew up with many cousins.
{v} is the town where {s} was born.
{S} spent the first days of life in {v}, {p} birthplace.
{P} parents lived in {v} when {s} was born.
? Where was {n} born?
? In which place was {n} born?
? What is the birthplace of {n}?
? Where does {n} come from?
? What is {n}'s birthplace?
< Who was born in {v}?
@ person birth_year year
{S} was born in {v}.
{S} was born in the year {v}.
{P} birth year is {v}.
{P} year of birth was {v}.
In {v} {s} was born.
Born in {v}, {s} was a quiet child.
{S} came into the world in {v}.
The parish book gives {v} as the year {s} was born.
? When was {n} born?
? In which year was {n} born?
? What is the birth year of {n}?
? In what year was {n} born?
< Who was born in {v}?
@ person death_year year
{S} died in {v}.
{S} passed away in {v}.
{P} death came in {v}.
In {v} {s} died after a short illness.
{P} life ended in {v}.
{S} lived until {v}.
Friends buried {o} in {v}.
The year {v} saw {p} death.
? When did {n} die?
? In which year did {n} die?
? What year did {n} pass away?
? What is the year of death of {n}?
< Who died in {v}?
@ person occupation occupation
{S} worked as {av}.
{S} was {av} by trade.
{S} is {av}.
{S} earned a living as {av}.
{P} profession was that of {av}.
By profession {s} was {av}.
{S} trained as {av} and never regretted it.
{P} job is {v}.
For most of {p} life {s} was {av}.
People knew {o} as {av}.
After school {s} became {av}.
? What was the occupation of {n}?
? What is the job of {n}?
? What did {n} do for a living?
? What was {n}'s profession?
? What work did {n} do?
< Who worked as {av}?
< Who was {av}?
@ person lives_in place
{S} lives in {v}.
{S} made a home in {v}.
{P} home is in {v}.
{S} settled in {v}.
{S} later moved to {v}.
Today {s} lives in {v}.
{P} house stands in {v}.
{S} resides in {v}.
For years now {v} has been home to {o}.
{S} bought a house in {v} and stayed there.
? Where does {n} live?
? In which town does {n} live?
? Where is the home of {n}?
? Where did {n} settle?
? Which place did {n} move to?
< Who lives in {v}?
@ person employer org
{S} worked for {v}.
{S} was employed by {v}.
{S} joined {v} after school.
{P} employer was {v}.
{v} hired {o}.
{S} took a post at {v}.
{S} spent a whole career at {v}.
At {v} {s} found work.
{S} has been on the staff of {v} for years.
{v} gave {o} a first job.
? Who did {n} work for?
? Who was the employer of {n}?
? Which organisation employed {n}?
? Where did {n} work?
? Which organisation did {n} join?
# the employer of {n}
# the organisation that employed {n}
# the organisation that {n} worked for
< Who worked for {v}?
@ person spouse person
{S} married {v}.
{S} was married to {v}.
{P} spouse was {v}.
{S} and {v} were married in spring.
{v} became the spouse of {o}.
{S} wed {v} at a small ceremony.
At last {s} married {v}.
{P} marriage to {v} was a happy one.
{S} shared a household with {v}, {p} spouse.
? Who did {n} marry?
? Who was the spouse of {n}?
? Who was {n} married to?
? To whom was {n} married?
# the spouse of {n}
# the person who married {n}
# the person {n} married
@ person sibling person
{P} sibling is {v}.
{S} grew up with {v}, {p} sibling.
{S} has a sibling called {v}.
{S} had one sibling, {v}.
{v} is the only sibling of {o}.
{S} shared a room with {p} sibling {v}.
{P} sibling {v} was always close by.
The sibling closest to {o} was {v}.
? Who is the sibling of {n}?
? What is the name of the sibling of {n}?
? Who is {n}'s sibling?
# the sibling of {n}
@ person teacher person
{S} was taught by {v}.
{S} studied under {v}.
{P} teacher was {v}.
{v} taught {o} everything.
{S} learned the craft from {v}.
{S} took lessons from {v}.
{P} mentor and teacher was {v}.
For years {v} was the teacher of {o}.
{S} was a pupil of {v}.
? Who taught {n}?
? Who was the teacher of {n}?
? Under whom did {n} study?
? Who was {n}'s teacher?
# the teacher of {n}
# the person who taught {n}
@ person university org
{S} studied at {v}.
{S} graduated from {v}.
{S} took a degree at {v}.
{S} was educated at {v}.
{v} gave {o} a degree.
As a student {s} attended {v}.
{P} student years were spent at {v}.
{S} earned a diploma from {v}.
? Where did {n} study?
? Where was {n} educated?
? Which organisation did {n} graduate from?
? Where did {n} take a degree?
# the place where {n} studied
# the organisation where {n} studied
@ person instrument instrument
{S} plays the {v}.
{S} practises the {v} every day.
{P} instrument is the {v}.
{S} learned to play the {v} early.
In the evenings {s} played the {v}.
{S} performs on the {v}.
{S} owns an old {v} and plays it well.
{S} is known for playing the {v}.
? Which instrument does {n} play?
? What instrument does {n} play?
? What is the instrument of {n}?
? What does {n} play?
< Who plays the {v}?
@ person hobby hobby
{S} enjoys {v}.
{P} hobby is {v}.
{S} spends free days on {v}.
In spare hours {s} took up {v}.
{S} loves {v} more than anything.
{P} favourite pastime was {v}.
{S} relaxed with {v}.
On Sundays {s} went in for {v}.
{S} was very fond of {v}.
? What is the hobby of {n}?
? What hobby does {n} have?
? What does {n} enjoy?
? What did {n} do for fun?
? What is {n}'s favourite pastime?
< Who enjoys {v}?
@ person pet animal
{S} keeps {av}.
{S} owned {av}.
{S} had a tame {v}.
{P} pet is {av}.
At home {s} kept {av} as a pet.
{S} looked after {av} for years.
{S} went everywhere with a pet {v}.
A {v} was {p} pet.
? Which animal does {n} keep?
? What pet does {n} have?
? What is the pet of {n}?
? What kind of animal is the pet of {n}?
< Who keeps {av}?
@ person food food
{S} loves {v}.
{P} favourite food is {v}.
{S} often eats {v}.
{S} could live on {v}.
For supper {s} likes {v}.
{S} never says no to {v}.
Nothing pleases {o} like a plate of {v}.
{S} prefers {v} to any other food.
? What is the favourite food of {n}?
? What food does {n} love?
? Which food does {n} like best?
? What does {n} like to eat?
@ person language language
{S} speaks {v}.
{S} spoke {v} at home.
{P} mother tongue is {v}.
{P} first language was {v}.
{S} grew up speaking {v}.
{S} wrote letters in {v}.
{S} taught {v} to children.
At home {s} used only {v}.
? What language does {n} speak?
? Which language did {n} speak?
? What is the mother tongue of {n}?
? What is {n}'s first language?
< Who speaks {v}?
@ person award award
{S} won the {v}.
{S} received the {v}.
{S} was awarded the {v}.
{P} work earned the {v}.
The {v} went to {o}.
{S} was given the {v} for long service.
Late in life {s} accepted the {v}.
A jury gave {o} the {v}.
? Which award did {n} win?
? What prize did {n} receive?
? Which prize was {n} awarded?
? What award was given to {n}?
< Who won the {v}?
< Who received the {v}?
@ person wrote work
{S} wrote {v}.
{S} is the author of {v}.
{P} best known book is {v}.
{v} was written by {o}.
{S} published {v} to great praise.
{S} finished the book {v} in one winter.
The book {v} is by {o}.
{S} made a name with the book {v}.
? Which book did {n} write?
? What is the title of the book by {n}?
? What did {n} write?
? Which book is by {n}?
# the book that {n} wrote
# the book by {n}
< Who wrote {v}?
< Who is the author of {v}?
@ person invention thing
{S} invented the {v}.
{S} is remembered as the inventor of the {v}.
The {v} was invented by {o}.
{S} built the first {v}.
{P} invention was the {v}.
{S} came up with the {v}.
{S} patented the {v}.
The idea of the {v} came from {o}.
? What did {n} invent?
? What was the invention of {n}?
? Which device did {n} build first?
? What is {n} remembered for inventing?
< Who invented the {v}?
< Who was the inventor of the {v}?
@ person colour colour
{P} favourite colour is {v}.
{S} always wore {v}.
{S} painted the front door {v}.
{S} likes {v} best of all colours.
{S} chose {v} for every coat.
Of all colours {s} preferred {v}.
{S} dressed in {v}.
The colour {v} pleased {o} most.
? What is the favourite colour of {n}?
? Which colour does {n} like?
? What colour does {n} prefer?
@ person street street
{S} lives on {v}.
{S} had a house on {v}.
{P} address was {v}.
{P} house stood on {v}.
{S} rented a flat on {v}.
{S} kept a home on {v}.
{S} spent many years on {v}.
{S} came to live on {v}.
On {v} {s} bought a small house.
? On which street is the house of {n}?
? What street did {n} live on?
? On what street does {n} live?
? What was the address of {n}?
< Who lives on {v}?
@ person collection product
{S} collected {v}.
{S} collects {v}.
{P} collection of {v} was well known.
{S} filled a room with {v}.
{S} had a large collection of {v}.
{S} spent all savings on {v} for a collection.
{S} began to collect {v} as a child.
{S} collected {v} all through life.
? What does {n} collect?
? What did {n} fill a room with?
? What was in the collection of {n}?
? What kind of things did {n} collect?
< Who collected {v}?
@ org founded year
{S} was founded in {v}.
{S} was established in {v}.
{S} opened for business in {v}.
{P} founding year is {v}.
{S} began work in {v}.
In {v} {s} was set up.
{S} goes back to {v}.
The year {v} saw the start of {o}.
{S} has existed since {v}.
? When was {n} founded?
? In which year was {n} founded?
? When was {n} established?
? What is the founding year of {n}?
? When did {n} begin?
< Which organisation was founded in {v}?
@ org founder person
{S} was founded by {v}.
{v} founded {o}.
{P} founder was {v}.
{S} was set up by {v}.
{S} was the creation of {v}.
It was {v} who founded {o}.
{v} started {o} with borrowed money.
{v} established {o} in a rented room.
The founder of {o} was {v}.
? Who founded {n}?
? Who was the founder of {n}?
? Who established {n}?
? Who set up {n}?
? Who started {n}?
# the founder of {n}
# the person who founded {n}
# the person who started {n}
< What did {v} found?
< Which organisation was founded by {v}?
@ org seat place
{S} is based in {v}.
{S} has its head office in {v}.
{P} headquarters are in {v}.
{S} is located in {v}.
The main office of {o} is in {v}.
{S} moved its offices to {v}.
From {v} {s} runs all its branches.
{S} operates from {v}.
{P} seat is in {v}.
? Where is {n} based?
? Where are the headquarters of {n}?
? In which town is {n} located?
? Where is the head office of {n}?
# the town where {n} is based
# the place where {n} has its headquarters
< Which organisation is based in {v}?
@ org director person
{S} is led by {v}.
{P} director is {v}.
{v} is the director of {o}.
{v} runs {o}.
{S} is headed by {v}.
{v} took charge of {o}.
{S} named {v} as director.
Under the director {v}, {s} grew.
? Who is the director of {n}?
? Who leads {n}?
? Who runs {n}?
? Who is in charge of {n}?
? Who heads {n}?
# the director of {n}
# the person who leads {n}
# the head of {n}
< Which organisation does {v} lead?
@ org product product
{S} makes {v}.
{S} produces {v}.
{S} sells {v}.
{P} main product is {v}.
{S} is known for its {v}.
{S} has always manufactured {v}.
Most people buy {v} from {o}.
{S} turned to making {v}.
Its workshops turned out {v}, which made the name of {o}.
? What does {n} make?
? What does {n} produce?
? What is the main product of {n}?
? What does {n} sell?
? What is {n} known for?
< Which organisation makes {v}?
@ org staff number
{S} employs {v} people.
{S} has {v} employees.
{S} has a staff of {v}.
{P} staff numbers {v}.
{v} people work for {o}.
{S} pays wages to {v} workers.
At last count {s} had {v} workers.
? How many people does {n} employ?
? How many employees does {n} have?
? How many people work for {n}?
? How large is the staff of {n}?
@ org owner org
{S} is owned by {v}.
{S} belongs to {v}.
{P} owner is {v}.
{v} owns {o}.
{v} bought {o} some years ago.
{S} was taken over by {v}.
{S} became part of {v}.
{S} is a branch of {v}.
? Who owns {n}?
? Which organisation owns {n}?
? Who is the owner of {n}?
? Which organisation bought {n}?
# the owner of {n}
# the organisation that owns {n}
@ org street street
{S} has its rooms on {v}.
{S} opened on {v}.
{S} stands on {v}.
{P} first address was {v}.
{P} workshop is on {v}.
{S} began on {v}.
{S} rented a building on {v}.
The workers of {o} came to {v} every morning.
? On which street is {n}?
? What street is {n} on?
? On what street did {n} begin?
? What is the address of {n}?
@ org moved_to street
{S} moved to {v}.
{S} later moved to {v}.
{S} moved its workshop to {v}.
{S} left its old rooms for {v}.
{P} new address was {v}.
{S} found larger rooms on {v}.
{S} was moved to {v} by its owner.
The new rooms of {o} were on {v}.
? Where did {n} move?
? What street did {n} move to?
? To what street did {n} move?
? On which street were the new rooms of {n}?
@ org moved_in year
{S} moved in {v}.
{S} changed its address in {v}.
{S} left its first rooms in {v}.
{P} move came in {v}.
{S} moved to a larger place in {v}.
{S} packed up and moved in {v}.
The move of {o} took place in {v}.
? When did {n} move?
? In which year did {n} move?
? What year did {n} move in?
? In what year did {n} leave its first rooms?
@ org sold_in year
{S} was sold in {v}.
{S} got a new owner in {v}.
{S} was taken over in {v}.
{S} passed to a new owner in {v}.
{S} changed hands in {v}.
{P} sale came in {v}.
The sale of {o} took place in {v}.
? When was {n} sold?
? In which year was {n} taken over?
? When did {n} get a new owner?
? In what year did {n} change hands?
@ org new_owner person
{S} was taken over by {v}.
{S} passed to {v}.
{S} was sold to {v}.
{S} was bought by {v}.
{P} new owner was {v}.
{P} second owner was {v}.
{S} came into the hands of {v}.
The next owner of {o} was {v}.
{v} took over {o}.
? Who was the new owner of {n}?
? Who bought {n}?
? By whom was {n} taken over?
? To whom was {n} sold?
# the new owner of {n}
# the person who bought {n}
# the person who took over {n}
@ org emblem animal
{P} emblem is {av}.
{P} sign shows {av}.
{S} has {av} as its emblem.
{S} chose {av} for its emblem.
{S} put {av} on every bill.
{S} took {av} as a sign.
The emblem of {o} was {av}.
The sign of {o} shows {av}.
? What animal is the emblem of {n}?
? Which animal is on the sign of {n}?
? What is the emblem of {n}?
? Which animal did {n} choose as an emblem?
@ org meets_in building
{S} meets in {v}.
{S} holds its meetings in {v}.
{S} comes together in {v}.
{P} meetings are held in {v}.
{P} members meet in {v}.
{S} uses a room in {v}.
The members of {o} meet at {v}.
? Where does {n} meet?
? In what building does {n} meet?
? Where are the meetings of {n} held?
? Which building does {n} meet in?
@ org garment garment
{P} members wear {v}.
{P} people wear {v}.
{P} workers were given {v} to wear.
{S} asks everyone to wear {v}.
{S} is known for the {v} that its members wear.
The members of {o} wear {v}.
The people of {o} always wore {v}.
? What do the members of {n} wear?
? What do people of {n} wear?
? Which clothes belong to {n}?
? What did the members of {n} always wear?
@ place river river
{S} lies on the river {v}.
{S} stands on the {v}.
The river {v} flows through {o}.
The {v} runs past {o}.
{S} grew up along the river {v}.
{S} was built on the banks of the {v}.
Boats reach {o} by the river {v}.
{P} river is the {v}.
? Which river flows through {n}?
? On which river does {n} lie?
? What is the river of {n}?
? On which river is {n}?
@ place population number
{S} has {v} inhabitants.
{S} is home to {v} people.
{P} population is {v}.
{v} people live in {o}.
About {v} people call {o} home.
A count found {v} inhabitants in {o}.
With {v} inhabitants, {s} is not large.
? How many people live in {n}?
? What is the population of {n}?
? How many inhabitants does {n} have?
? How many people call {n} home?
@ place mayor person
{P} mayor is {v}.
{v} is the mayor of {o}.
{S} elected {v} as mayor.
The mayor of {o} is called {v}.
{S} is governed by the mayor, {v}.
{v} was chosen to be mayor of {o}.
Voters made {v} the mayor of {o}.
As mayor, {v} speaks for {o}.
? Who is the mayor of {n}?
? What is the name of the mayor of {n}?
? Who was elected mayor of {n}?
# the mayor of {n}
< Which place has {v} as mayor?
@ place known_for product
{S} is known for its {v}.
{S} is famous for {v}.
{S} lives from the trade in {v}.
The market of {o} sells {v}.
Travellers visit {o} for its {v}.
The {v} of {o} are praised everywhere.
{P} main trade is in {v}.
{S} exports {v}.
? What is {n} known for?
? What is {n} famous for?
? What does {n} export?
? What is the main trade of {n}?
< Which place is known for its {v}?
@ place region region
{S} lies in the region of {v}.
{S} is a town in {v}.
{S} belongs to {v}.
{S} is part of {v}.
{P} region is {v}.
{S} sits in the south of {v}.
{S} is one of the older towns of {v}.
Maps place {o} in {v}.
? In which region is {n}?
? In which region does {n} lie?
? What region does {n} belong to?
? Where does {n} lie?
@ building architect person
{S} was designed by {v}.
{v} designed {o}.
{P} architect was {v}.
The architect of {o} was {v}.
{v} drew the plans for {o}.
{S} is the work of the architect {v}.
{S} was built to a design by {v}.
The plans for {o} came from {v}.
? Who designed {n}?
? Who was the architect of {n}?
? Who drew the plans for {n}?
? Whose design was {n}?
# the architect of {n}
# the person who designed {n}
# the designer of {n}
< What did {v} design?
< Which building was designed by {v}?
@ building opened year
{S} opened in {v}.
{S} was opened in {v}.
{S} was completed in {v}.
In {v} {s} was finished.
{P} opening took place in {v}.
{S} dates from {v}.
Work on {o} ended in {v}.
The public first entered {o} in {v}.
? When did {n} open?
? In which year was {n} opened?
? When was {n} completed?
? What year does {n} date from?
? When was {n} finished?
< Which building opened in {v}?
@ building located place
{S} stands in {v}.
{S} is in {v}.
{S} is located in {v}.
{S} was built in {v}.
{S} rises over the roofs of {v}.
Visitors to {v} see {o} first.
{S} belongs to the town of {v}.
{v} is where {s} stands.
? Where is {n}?
? In which town does {n} stand?
? Where is {n} located?
? Where was {n} built?
# the town where {n} stands
# the town in which {n} is located
< Which building stands in {v}?
@ building height number
{S} is {v} metres high.
{S} rises {v} metres.
{P} height is {v} metres.
{S} reaches a height of {v} metres.
{S} measures {v} metres from top to bottom.
At {v} metres {s} can be seen from afar.
{S} stands {v} metres tall.
? How tall is {n}?
? How high is {n}?
? What is the height of {n}?
? How many metres does {n} rise?
@ building material material
{S} is built of {v}.
{S} was made of {v}.
{P} walls are of {v}.
The builders of {o} used {v}.
{S} consists mostly of {v}.
{v} was used for {o}, as a plate records.
Its makers chose {v} for {o}.
? What is {n} built of?
? What material was used for {n}?
? What is {n} made of?
? Which material is {n} made of?
@ building street street
{S} stands on {v}.
{S} was built on {v}.
{S} looks down {v}.
{P} main door is on {v}.
{P} address is {v}.
{S} can be found on {v}.
The front of {o} is on {v}.
? On which street is {n}?
? On what street does {n} stand?
? What street is {n} on?
@ building built year
{S} was built in {v}.
{S} was put up in {v}.
{P} walls were built in {v}.
{P} year of building is {v}.
{S} has stood there since {v}.
{S} was built in the year {v}.
The building of {o} was done in {v}.
? When was {n} built?
? In what year was {n} built?
? What year was {n} built in?
@ building weathervane animal
{P} weathervane is {av}.
{S} has {av} on its roof as a weathervane.
{S} has a weathervane like {av}.
{P} weathervane shows {av}.
{S} carries {av} on its roof.
The weathervane of {o} is {av}.
The roof of {o} has {av} for a weathervane.
? What animal is the weathervane of {n}?
? Which animal is on the roof of {n}?
? What does the weathervane of {n} show?
@ event held_in place
{S} is held in {v}.
{S} takes place in {v}.
{v} hosts {o}.
{P} home is {v}.
Each time {s} is staged in {v}.
Guests travel to {v} for {o}.
{S} brings crowds to {v}.
The venue of {o} is {v}.
? Where is {n} held?
? Where does {n} take place?
? Which town hosts {n}?
? Where is {n} staged?
# the town where {n} is held
# the town that hosts {n}
@ event month date
{S} begins on {v}.
{S} starts on {v}.
{S} is held on {v}.
{P} opening day is {v}.
On {v} {s} begins.
The first day of {o} is {v}.
{S} is set for {v}.
Each year {s} opens on {v}.
? When does {n} begin?
? On which day does {n} start?
? On what date is {n} held?
? What is the opening day of {n}?
@ event winner person
{S} was won by {v}.
{v} won {o}.
{P} winner was {v}.
The last winner of {o} was {v}.
{v} took first place at {o}.
First prize at {o} went to {v}.
{v} came first in {o}.
The judges of {o} chose {v} as the winner.
? Who won {n}?
? Who was the winner of {n}?
? Who came first in {n}?
? Who took first place at {n}?
# the winner of {n}
# the person who won {n}
< What did {v} win?
@ event first_held year
{S} was first held in {v}.
{S} began in {v}.
{S} took place for the first time in {v}.
{P} first year was {v}.
Since {v} {s} has been held.
{S} goes back to {v}.
The first posters for {o} date from {v}.
? When was {n} first held?
? In which year was {n} first held?
? When did {n} first take place?
? What was the first year of {n}?
@ event organiser org
{S} is organised by {v}.
{v} organises {o}.
{P} organiser is {v}.
{S} is run by {v}.
{v} pays for {o}.
Behind {o} stands {v}, the organiser.
The organiser of {o} is {v}.
{S} was started by {v}, which still organises it.
? Who organises {n}?
? Which organisation organises {n}?
? Who is the organiser of {n}?
? Which organisation runs {n}?
# the organiser of {n}
# the organisation that organises {n}
@ work published year
{S} was published in {v}.
{S} came out in {v}.
{S} appeared in {v}.
{P} year of publication is {v}.
In {v} {s} was printed.
The first copies of {o} were sold in {v}.
Readers first saw {o} in {v}.
? When was {n} published?
? In which year did {n} come out?
? When did {n} appear?
? What is the year of publication of {n}?
@ work subject_matter topic
{S} is about {v}.
{S} tells of {v}.
{P} subject is {v}.
{S} deals with {v}.
{S} describes {v}.
The theme of {o} is {v}.
{S} is a study of {v}.
At the heart of {o} is {v}.
? What is {n} about?
? What is the subject of {n}?
? What does {n} describe?
? What does {n} deal with?
@ work kept_at org
The only copy of {o} is kept at {v}.
{S} is kept by {v}.
{v} owns the only copy of {o}.
{S} belongs to {v}.
{S} was given to {v}.
{P} first draft is held by {v}.
Visitors can read {o} at {v}.
{S} is stored in the rooms of {v}.
? Where is {n} kept?
? Which organisation keeps {n}?
? Who owns the only copy of {n}?
? Where is the only copy of {n}?
# the organisation that keeps {n}
@ work translator person
{S} was translated by {v}.
{v} translated {o}.
{P} translator was {v}.
The translation of {o} is by {v}.
{v} made the first translation of {o}.
{S} reached other countries through a translation by {v}.
{v} spent years on a translation of {o}.
? Who translated {n}?
? Who was the translator of {n}?
? Who made the translation of {n}?
# the translator of {n}
# the person who translated {n}
@ ship captain person
{S} sails under {v}.
{P} captain is {v}.
{v} is the captain of {o}.
{v} commands {o}.
The captain of {o} is {v}.
{S} was put under the command of {v}.
{v} took command of {o}.
{v} steered {o} through many storms as captain.
? Who is the captain of {n}?
? Who commands {n}?
? Under whose command is {n}?
? Who took command of {n}?
# the captain of {n}
# the person who commands {n}
@ ship built_at place
{S} was built in {v}.
{S} was launched at {v}.
{S} came from a yard in {v}.
The yard at {v} built {o}.
Workers in {v} built {o}.
{S} first touched water at {v}.
{P} keel was laid in {v}.
? Where was {n} built?
? In which town was {n} built?
? Where was {n} launched?
@ ship launched year
{S} was launched in {v}.
{S} first sailed in {v}.
{S} went to sea in {v}.
{P} launch was in {v}.
In {v} {s} left the yard.
{S} entered service in {v}.
The year {v} saw the launch of {o}.
? When was {n} launched?
? In which year was {n} launched?
? When did {n} enter service?
? When did {n} first sail?
@ ship cargo product
{S} carries {v}.
{S} carried {v} across the sea.
{P} cargo is {v}.
The cargo of {o} was {v}.
{S} is loaded with {v}.
{S} brought {v} home.
The hold of {o} was full of {v}.
? What does {n} carry?
? What is the cargo of {n}?
? What was {n} loaded with?
< Which ship carries {v}?
"""


def _parse(table: str) -> tuple[Relation, ...]:
    relations = []
    for block in table.split("@ ")[1:]:
        head, *lines = _lines(block)
        subject, key, value = head.split()
        marked = {"?": [], "#": [], "<": [], "": []}  # type: dict[str, list[str]]
        for line in lines:
            mark = line[0] if line[0] in "?#<" else ""
            marked[mark].append(line.removeprefix(mark).strip())
        relations.append(
            Relation(
                key=key,
                subject=subject,
                value=value,
                statements=tuple(marked[""]),
                questions=tuple(marked["?"]),
                descriptors=tuple(marked["#"]),
                inverse=tuple(marked["<"]),
            )
        )
    return tuple(relations)


RELATIONS = _parse(_TABLE)


def generic_relation(key: str, subject: str) -> Relation:
    """A made-up attribute: only the words of the note can tell which value belongs to it."""
    return Relation(
        key,
        subject,
        "generic_value",
        tuple(s.replace("{k}", key) for s in GENERIC_STATEMENTS),
        tuple(q.replace("{k}", key) for q in GENERIC_QUESTIONS),
    )


GENERIC_STATEMENTS = (
    "The {k} of {o} is {v}.",
    "{P} {k} is {v}.",
    "{P} {k} was {v}.",
    "{S} has {v} as {k}.",
    "As {k}, {s} has {v}.",
    "{v} is the {k} of {o}.",
    "The {k} given to {o} was {v}.",
    "For {k}, {s} chose {v}.",
    "The list shows {v} as {p} {k}.",
    "{S} received {v} as {k}.",
)
GENERIC_QUESTIONS = (
    "What is the {k} of {n}?",
    "What was the {k} of {n}?",
    "What {k} does {n} have?",
    "Which {k} was given to {n}?",
    "Which {k} does {n} have?",
    "What is {n}'s {k}?",
)

# (relation key, question about the larger value, question about the smaller value)
COMPARISONS = (
    (
        "birth_year",
        ("Who is younger, {a} or {b}?", "Who was born later, {a} or {b}?"),
        ("Who is older, {a} or {b}?", "Who was born earlier, {a} or {b}?"),
    ),
    (
        "founded",
        ("Which was founded later, {a} or {b}?", "Which is younger, {a} or {b}?"),
        ("Which was founded earlier, {a} or {b}?", "Which was founded first, {a} or {b}?"),
    ),
    (
        "opened",
        ("Which opened later, {a} or {b}?", "Which is newer, {a} or {b}?"),
        ("Which opened earlier, {a} or {b}?", "Which opened first, {a} or {b}?"),
    ),
    (
        "height",
        ("Which is taller, {a} or {b}?", "Which is higher, {a} or {b}?"),
        ("Which is shorter, {a} or {b}?", "Which is lower, {a} or {b}?"),
    ),
    (
        "population",
        ("Which is larger, {a} or {b}?", "Which has more inhabitants, {a} or {b}?"),
        ("Which is smaller, {a} or {b}?", "Which has fewer inhabitants, {a} or {b}?"),
    ),
    (
        "staff",
        ("Which has more employees, {a} or {b}?", "Which employs more people, {a} or {b}?"),
        ("Which has fewer employees, {a} or {b}?", "Which employs fewer people, {a} or {b}?"),
    ),
)
