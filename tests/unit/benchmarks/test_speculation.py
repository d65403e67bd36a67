"""Policies are served side by side, and none may change an answer."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks import speculation
from benchmarks.speculating.policies import OFF, OWN, UNGUARDED
from benchmarks.speculation import LOADS, Cell, served
from heddle.core.errors import InternalError


class FakeBench:
    """A bench whose policies answer "yes", but for one that a test names."""

    def __init__(self, liar=None):
        self.liar = liar

    def cell(self, policy, load):
        text = "no" if (policy.name, load) == self.liar else "yes"
        return Cell(policy.name, load, ((1.0,),), 0, 0, 1, 0, 0), ["yes", text]


@pytest.fixture(autouse=True)
def _in_threads(monkeypatch):
    monkeypatch.setattr(speculation, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(2))


def test_each_policy_has_a_cell_for_each_load(capsys):
    cells = served(FakeBench(), [OFF, OWN, UNGUARDED])
    assert {name: [cell.load for cell in own] for name, own in cells.items()} == {
        policy.name: list(LOADS) for policy in (OFF, OWN, UNGUARDED)
    }
    assert len(capsys.readouterr().out.splitlines()) == 3 * len(LOADS)


def test_a_policy_that_changes_an_answer_is_refused():
    with pytest.raises(InternalError, match=r"unguarded changed 1 answers at load 0\.8"):
        served(FakeBench(liar=("unguarded", 0.8)), [OFF, OWN, UNGUARDED])
