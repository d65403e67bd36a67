from typing import cast

import pytest

from benchmarks.coscheduling import same_work as module
from benchmarks.coscheduling.blocks import Contender
from benchmarks.coscheduling.contenders import HAND
from benchmarks.coscheduling.lane_set import LaneSet
from benchmarks.coscheduling.same_work import SameWork, same_work
from heddle.core.errors import InternalError

Outputs = dict[tuple[int, ...], tuple[int, ...]]
OUTPUTS: Outputs = {(1,): (7,), (2,): (8, 9)}


def contender(name: str, outputs: Outputs) -> Contender:
    found = Contender(name, cast("LaneSet", None), HAND)
    found.generations.outputs.update(outputs)
    return found


@pytest.fixture(autouse=True)
def _no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No output parts at a near-tie."""
    monkeypatch.setattr(module, "near_ties", lambda found, model: [False] * len(found))
    monkeypatch.setattr(module, "model_directory", lambda name: name)


def test_equal_work_is_counted() -> None:
    others = [contender("a", OUTPUTS), contender("b", OUTPUTS)]
    assert same_work(contender("own", OUTPUTS), others) == SameWork(2, 0)


def test_another_output_fails() -> None:
    with pytest.raises(InternalError, match="1 generations differ"):
        same_work(contender("own", OUTPUTS), [contender("a", {**OUTPUTS, (2,): (8, 0)})])


@pytest.mark.parametrize("more", ["own", "a"])
def test_a_prompt_of_one_only_fails(more: str) -> None:
    both = {name: contender(name, OUTPUTS) for name in ("own", "a")}
    both[more].generations.outputs[(3,)] = (1,)
    with pytest.raises(InternalError, match=f"'{more}': 1"):
        same_work(both["own"], [both["a"]])


def test_who_ran_some_blocks_may_lack_prompts_but_have_no_others() -> None:
    own = contender("own", OUTPUTS)
    assert same_work(own, [], [contender("a", {(1,): (7,)})]) == SameWork(2, 0)
    with pytest.raises(InternalError):
        same_work(own, [], [contender("a", {(5,): (7,)})])


def test_an_output_that_parts_at_a_near_tie_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "near_ties", lambda found, model: [True] * len(found))
    others = [contender("a", {**OUTPUTS, (2,): (8, 0)})]
    assert same_work(contender("own", OUTPUTS), others) == SameWork(2, 1)
