"""The simulation's checks can fail: each bug planted here is found within a few seeds."""

import subprocess
import sys
from dataclasses import replace

import pytest

from heddle.core.credits import Credits
from heddle.core.errors import InternalError
from heddle.core.frames import Done
from heddle.engines.llm.engine import LlmEngine
from heddle.engines.vector.search_tasks import SearchTasks
from heddle.kv.prefix_index import PageChain
from heddle.runtime.events import Answer
from heddle.runtime.frame_intake import FrameIntake
from heddle.runtime.runtime import Runtime
from heddle.runtime.task_table import TaskTable
from heddle.simulator.checks.prefixes import PrefixCheck
from heddle.simulator.cost_model_vector import SimulatedCorpus
from heddle.simulator.simulation import random_scenario, simulate, undisturbed

SEEDS = range(40)


def keep_credits(self, rows):
    """Credits never come back."""


def keep_lease(self, task, task_id):
    """Leases are forgotten without a Release."""
    self.leases.pop(task.prefill, None)


def keep_pages(self, handle):
    """A Release is ignored."""


def keep_rows(self, task_id):
    """A search that ends early keeps its rows."""
    return self.running.pop(task_id, None) is not None


def swallow_cancel(self, task_id):
    """A cancelled generation ends without a word."""
    sequence = self.sequences.decoded_by(task_id) or self.sequences.get(task_id)
    if sequence is not None:
        self.sequences.forget(sequence)


def ignore_gaps(self, lane, frame, now_s):
    """Lost frames are not noticed."""
    return True


def forget_vectors(self, chunk_ids, vectors):
    """Vectors are acknowledged and not stored."""
    return self.revision


def answer_twice(self, task, event, now_s, use=FrameIntake._use):
    """Some requests get an answer too many."""
    use(self, task, event, now_s)
    if isinstance(event, Done) and event.task_id % 50 == 0:
        task.request.sink(Answer("", (), {}, None))


def fold_again(self, lane, frame, now_s, is_next=FrameIntake._is_next):
    """A frame that arrives twice is folded twice."""
    return is_next(self, lane, frame, now_s) or True


def show_in_secret(self, task, event, now_s, fold=FrameIntake._fold_progress):
    """A token is shown, and the runtime forgets that before a retry."""
    fold(self, task, event, now_s)
    task.run.has_emitted = False
    task.run.told.clear()


def never_cancel(self, request):
    """Engines go on with tasks of requests that have ended."""


def wait_longer(self, *arguments, submit=Runtime.submit, **named):
    """Deadlines are ten milliseconds later than the caller's."""
    deadline_s = named.pop("deadline_s")
    later_s = None if deadline_s is None else deadline_s + 0.01
    return submit(self, *arguments, deadline_s=later_s, **named)


def mistake_repeats_for_gaps(self, lane, frame, now_s, is_next=FrameIntake._is_next):
    """A frame that arrives twice is taken for a lost one."""
    if (frame.epoch, frame.number) == lane.seen:
        self._give_up_tasks(lane, frame.epoch, now_s)
    return is_next(self, lane, frame, now_s)


def allow_all(self, scope):
    """A search looks at every tenant's chunks."""


def share_pages(self, fingerprint, salt, page_size, init=PageChain.__init__):
    """Tenants find each other's pages."""
    init(self, fingerprint, "", page_size)


@pytest.mark.parametrize(
    ("owner", "name", "bug", "symptoms"),
    [
        (Credits, "give_back", keep_credits, ("credits", "hung")),
        (TaskTable, "_close_lease", keep_lease, ("KV bytes free",)),
        (FrameIntake, "_is_next", ignore_gaps, ("hung", "still has tasks", "which wrote")),
        (FrameIntake, "_use", answer_twice, ("after its terminal one",)),
        (FrameIntake, "_is_next", fold_again, ("which wrote",)),
        (FrameIntake, "_fold_progress", show_in_secret, ("which wrote",)),
        (TaskTable, "cancel", never_cancel, ("after its end",)),
        (Runtime, "submit", wait_longer, ("after its deadline",)),
        (FrameIntake, "_is_next", mistake_repeats_for_gaps, ("fault(s) explain it",)),
        (SimulatedCorpus, "allowed", allow_all, ("there is",)),
        (PageChain, "__init__", share_pages, ("has sent none that begins like this",)),
        (LlmEngine, "_release", keep_pages, ("KV bytes free",)),
        (LlmEngine, "_cancel", swallow_cancel, ("still has tasks",)),
        (SimulatedCorpus, "store", forget_vectors, ("was told that chunks",)),
        (SearchTasks, "drop", keep_rows, ("KeyError", "still holds")),
    ],
)
def test_a_planted_bug_is_found(monkeypatch, owner, name, bug, symptoms):
    monkeypatch.setattr(owner, name, bug)
    report = next(filter(None, map(_broken, SEEDS)), "")
    assert report, f"no seed of {SEEDS} notices: {bug.__doc__}"
    assert any(symptom in report for symptom in symptoms), report


def _broken(seed):
    """Return what the simulation of a seed complains of, or nothing."""
    try:
        simulate(random_scenario(seed))
    except InternalError as error:
        return str(error)
    return ""


def forget_the_pages_before(self, token_ids, page_count):
    """A cached page is found by its own tokens alone, without the tokens before them."""
    size = self._page_size
    for page in range(len(self._digests), page_count):
        self._digests.append(repr(token_ids[page * size : (page + 1) * size]).encode())
    return self._digests[:page_count]


def look_away(self, task_id, tokens_reused):
    """The rule about prefixes, which sees this bug too, is switched off."""


def test_wrong_kv_changes_an_answer(monkeypatch):
    def texts(scenario):
        return [getattr(ticket.end, "text", None) for ticket in simulate(scenario).tickets]

    for seed in SEEDS:
        computed = undisturbed(random_scenario(seed))
        reused = replace(computed, shares=replace(computed.shares, unoptimized=0.0))
        right = texts(computed)
        assert texts(reused) == right
        with monkeypatch.context() as patch:
            patch.setattr(PageChain, "extend", forget_the_pages_before)
            patch.setattr(PrefixCheck, "_look", look_away)
            if texts(reused) != right:
                return
    raise AssertionError(f"no seed of {SEEDS} notices: {forget_the_pages_before.__doc__}")


def test_a_failure_names_its_seed_and_replays():
    script = (
        "import sys\n"
        "from heddle.core.credits import Credits\n"
        "Credits.give_back = lambda self, rows: None\n"
        "from heddle.simulator.__main__ import main\n"
        "sys.exit(main(['--seed', '3']))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 1
    assert "seed 3" in run.stderr
    assert "python -m heddle.simulator --seed 3 --log" in run.stderr
