import math

import pytest

from heddle.core.commands import TURN_S, Admit, Command, Steer
from heddle.core.frames import Done, Frame
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Asked
from heddle.core.tasks import Identity, Priority, Task
from heddle.hosts.guarded_engine import GuardedEngine
from heddle.hosts.turns import FOLLOW_UP_S, Turns

ANSWER = Frame("engine", 1, 0.1, (Done(0, Asked("")),))
NEWS = Frame("engine", 1, 0.1, ())


class Busy:
    """An engine that has work all the time, and notes the newest budget."""

    name = "engine"
    has_work = True
    budget_s = math.inf

    def apply(self, command: Command) -> None:
        """Take a command in."""
        if isinstance(command, Steer) and command.budget_s is not None:
            self.budget_s = command.budget_s

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Work for as long as it was steered to."""
        assert budget_s == self.budget_s
        return NEWS


def with_tasks(*classes: Priority) -> GuardedEngine:
    engine = GuardedEngine(Busy(), 1)
    for task_id, priority in enumerate(classes):
        identity = Identity(task_id, "node", priority=priority)
        payload = EmbedPayload(("text",))
        engine.apply(Admit(Task(task_id, PrimitiveKind.EMBEDDING, identity, payload)))
    return engine


def served(engines: list[GuardedEngine], steps: int) -> list[int | None]:
    turns, found = Turns(engines), []
    for _ in range(steps):
        number, wait_s = turns.choose(0.0)
        assert wait_s == 0.0
        turns.stepped(number, engines[number].live.most_urgent, NEWS, 0.0)
        found.append(number)
    return found


def test_engines_with_tasks_of_one_class_take_turns() -> None:
    engines = [with_tasks(Priority.NORMAL), with_tasks(Priority.NORMAL, Priority.BULK)]
    assert served(engines, 3) == [1, 0, 1]


def test_an_engine_with_less_urgent_tasks_waits_for_the_others() -> None:
    engines = [with_tasks(Priority.BULK), with_tasks(Priority.BULK, Priority.NORMAL)]
    assert served(engines, 2) == [1, 1]


def test_an_engine_without_tasks_waits_for_those_that_have_some() -> None:
    assert served([with_tasks(), with_tasks(Priority.BULK)], 2) == [1, 1]
    assert served([with_tasks(), with_tasks()], 2) == [1, 0]


def test_a_task_may_change_its_class() -> None:
    engines = [with_tasks(Priority.NORMAL), with_tasks(Priority.BULK)]
    engines[1].apply(Steer(task_id=0, priority=Priority.INTERACTIVE))
    assert served(engines, 2) == [1, 1]


def test_after_an_answer_a_lower_class_waits_for_what_follows_from_it() -> None:
    turns = Turns([with_tasks(Priority.BULK)])
    turns.stepped(0, Priority.NORMAL, ANSWER, 5.0)
    assert turns.choose(5.0) == (0, pytest.approx(FOLLOW_UP_S))
    assert turns.choose(5.0 + FOLLOW_UP_S) == (0, 0.0)


def test_nothing_waits_after_an_answer_of_its_own_class_or_after_none() -> None:
    turns = Turns([with_tasks(Priority.BULK)])
    turns.stepped(0, Priority.BULK, ANSWER, 5.0)
    assert turns.choose(5.0) == (0, 0.0)
    turns.stepped(0, Priority.NORMAL, NEWS, 5.0)
    assert turns.choose(5.0) == (0, 0.0)


def test_where_none_has_work_the_lane_waits_for_a_command() -> None:
    engine = GuardedEngine(Busy(), 1)
    engine.engine.has_work = False
    assert Turns([engine]).choose(0.0) == (None, math.inf)


@pytest.mark.parametrize(
    ("takes_turns", "asked_s", "in_force_s"),
    [(True, 0.8, TURN_S), (True, math.inf, TURN_S), (True, 0.01, 0.01), (False, 0.8, 0.8)],
)
def test_an_engine_that_others_wait_for_is_not_steered_to_long_steps(
    takes_turns, asked_s, in_force_s
):
    guarded = GuardedEngine(Busy(), 1, takes_turns=takes_turns)
    guarded.apply(Steer(budget_s=asked_s))
    guarded.apply(Steer(task_id=1, priority=Priority.BULK))  # says nothing of the budget
    guarded.step(0.0)
    assert guarded.engine.budget_s == in_force_s
