"""Requests that may have ended lanes have their turn one after another, the last of them alone.

The property: an input that ends lanes ends four at most, and no other request is ever refused,
in any company, with up to three losses from outside.
"""

import gc
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.errors import InputError
from heddle.runtime.speculator import Look
from heddle.runtime.supervision import Restart, lost_message
from tests.helpers.fake_ports import Bench, Call
from tests.helpers.running_searches import RunningSearches

SEGFAULT = "exit code -11, SIGSEGV"
KILLED = "exit code -9, SIGKILL"
PROCESSES = ("retrieval", "llm")
POISON = tuple(f"poison of {process}" for process in PROCESSES)
INNOCENT = ("who", "where", "when")
LOSSES_MAX = 3
CRASHES_MAX = 4


class World:
    """Two processes: one embeds and searches, the other writes. Nothing ends by itself."""

    def __init__(self, workflow):
        self.bench, self.workflow = Bench(), workflow
        self.ports = {
            "retrieval": (self.bench.embedding, self.bench.vector),
            "llm": (self.bench.llm,),
        }
        for port in self.bench.ports:
            port.holds = lambda task: True
        self.calls: list[tuple[str, Call]] = []
        self.questions: dict[int, str] = {}
        self.crashes: Counter[str] = Counter()
        self.deaths = 0

    def ask(self, question: str) -> Call | None:
        """Ask; None = it was refused at the door."""
        try:
            call = self.bench.submit(self.workflow, {"query": question}, cycle=False)
        except InputError:
            assert question in POISON, "an innocent question was refused"
            return None
        self.questions[call.id] = question
        self.calls.append((question, call))
        self.bench.cycle()
        return call

    @property
    def held(self) -> list[tuple[str, int]]:
        """The requests that have work under way, each with the process that has it."""
        found = [
            (process, task.identity.request_id)
            for process, ports in self.ports.items()
            for port in ports
            for task in port.open.values()
        ]
        return list(dict.fromkeys(found))

    def run(self, number: int) -> None:
        """Have a process do its work for a request, or die of it."""
        process, request_id = self.held[number % len(self.held)]
        question = self.questions[request_id]
        if question == f"poison of {process}":
            self.crashes[question] += 1
            self.die(process, SEGFAULT)
            return
        for port in self.ports[process]:
            own = [
                task_id for task_id, t in port.open.items() if t.identity.request_id == request_id
            ]
            for task_id in sorted(own):
                port.answer(task_id)
        self.bench.cycle()

    def die(self, process: str, how: str) -> None:
        self.deaths += 1
        message = lost_message(process, how, Restart(self.deaths + 1, 0.1))
        for port in self.ports[process]:
            port.lose_lane(message)
        self.bench.cycle()

    def finish(self) -> None:
        """Do all the work that there is."""
        while self.bench.runtime.requests.open:
            assert self.held, "requests wait, and none may send"
            self.run(0)


ASK = st.tuples(st.just("ask"), st.sampled_from(POISON + INNOCENT))
RUN = st.tuples(st.just("run"), st.integers(0, 50))
LOSE = st.tuples(st.just("lose"), st.sampled_from(PROCESSES))


@settings(max_examples=150)
@given(st.lists(st.one_of(ASK, ASK, RUN, RUN, LOSE), max_size=50))
def test_poison_ends_few_lanes_and_the_innocent_are_never_refused(oneshot, actions):
    world, losses = World(oneshot), 0
    for name, what in actions:
        if name == "ask":
            world.ask(what)
        elif name == "run" and world.held:
            world.run(what)
        elif name == "lose" and losses < LOSSES_MAX:
            losses += 1
            world.die(what, KILLED)
    world.finish()
    for question in POISON * 6:
        world.ask(question)
        world.finish()
    assert all(world.crashes[question] <= CRASHES_MAX for question in POISON)
    assert [world.ask(question) for question in POISON] == [None, None]
    for question, call in world.calls:
        (end,) = call.ends
        error = getattr(end, "error", None)
        assert error is not None if question in POISON else not isinstance(error, InputError)
    for question in INNOCENT:
        call = world.ask(question)
        world.finish()
        assert call is not None
        assert call.answer
    world.bench.assert_idle()


def test_a_popular_question_outlives_three_losses_and_not_a_fourth(oneshot):
    world = World(oneshot)
    calls = [world.ask("who") for _ in range(3)]
    for _ in range(LOSSES_MAX):
        world.die("retrieval", KILLED)
    assert not any(call.ends for call in calls)
    world.die("retrieval", KILLED)
    assert all(isinstance(call.error, InputError) for call in calls), "it was alone each time"


def test_what_was_beside_a_poison_at_two_crashes_waits_its_turn_and_is_answered(oneshot):
    world = World(oneshot)
    poison = world.ask(POISON[1])
    calls = [world.ask(question) for question in INNOCENT]
    while len([1 for process, _ in world.held if process == "llm"]) < 4:
        world.run(0)
    for _ in range(2):
        world.die("llm", SEGFAULT)
    assert world.held == [("llm", poison.id)], "the oldest suspect has its turn"
    fresh = world.ask("a new one")
    assert ("retrieval", fresh.id) in world.held, "others go on beside it"
    world.die("llm", SEGFAULT)
    assert ("llm", poison.id) not in world.held, "what others have under way ends first"
    assert world.ask("a newer one").ends == []
    world.run(world.held.index(("retrieval", fresh.id)))
    assert world.held == [("llm", poison.id)], "nothing is sent beside it"
    world.die("llm", SEGFAULT)
    assert isinstance(poison.error, InputError)
    world.finish()
    assert all(call.answer for _, call in world.calls[1:])
    assert calls[0].answer.receipt.retries == 2


def test_looks_of_requests_that_ended_are_forgotten_while_a_suspect_runs(oneshot):
    bench = RunningSearches()
    bench.llm.costs = CostSnapshot("llm", 1, {"call": 0.01, "prefill_tokens": 1e-3})
    bench.llm.post()
    suspect, other = (bench.submit(oneshot, {"query": query}) for query in ("who", "where"))
    for number in range(2):
        bench.vector.lose_lane(lost_message("vector", SEGFAULT, Restart(number + 2, 0.1)))
        bench.cycle()
    beside = bench.submit(oneshot)
    bench.look()
    ended = bench.runtime.requests.open[beside.id]
    bench.cancel(other)
    bench.cancel(beside)
    assert not suspect.ends, "it is tried by itself"
    assert [one for one in gc.get_objects() if isinstance(one, Look) and one.request is ended] == []


def test_one_that_can_not_be_told_from_its_copies_is_refused_with_them(oneshot):
    world = World(oneshot)
    calls = [world.ask(POISON[0]) for _ in range(3)]
    for _ in range(2):
        world.run(0)
    assert all(isinstance(call.error, InputError) for call in calls)
    assert world.crashes[POISON[0]] == 2
    assert world.bench.runtime.requests.open == {}
