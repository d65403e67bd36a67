"""Runs of programs that drive from outside: as old as their first call, a tenant's own, bounded."""

import weakref

from heddle.core.tasks import Caller
from heddle.runtime.runs import (
    AGE_S_MAX,
    IDLE_S_MAX,
    RUNS_MAX,
    TEXT_TOKENS_MAX,
    TEXTS_MAX,
    ProgramRuns,
    RunTexts,
)

CALLER = Caller("run-1", "retrieve")


def test_later_calls_are_as_old_as_the_first_and_tenants_share_no_run():
    runs = ProgramRuns()
    first = runs.joined("a", CALLER, 7, 1.0)
    later = runs.joined("a", Caller("run-1", "answer"), 9, 2.0)
    assert (later.first_request, later.since_s) == (first.first_request, first.since_s) == (7, 1.0)
    assert runs.joined("b", CALLER, 10, 3.0).first_request == 10


def test_an_id_that_is_kept_stays_the_oldest_for_no_longer_than_an_hour():
    runs = ProgramRuns()
    runs.joined("", CALLER, 1, 0.0)
    assert runs.joined("", CALLER, 2, IDLE_S_MAX).first_request == 1
    assert runs.joined("", CALLER, 3, 2 * IDLE_S_MAX + 1).first_request == 3
    steps = range(int(AGE_S_MAX / IDLE_S_MAX) + 2)
    found = [runs.joined("x", CALLER, n + 1, n * IDLE_S_MAX).first_request for n in steps]
    assert found == [1] * (len(steps) - 1) + [len(steps)]


def test_the_table_forgets_what_rested_longest():
    runs = ProgramRuns()
    runs.joined("", CALLER, 1, 0.0)
    for number in range(RUNS_MAX):
        runs.joined("", Caller(f"other-{number}"), number + 2, 1.0)
    assert runs.joined("", CALLER, RUNS_MAX + 2, 2.0).first_request == RUNS_MAX + 2


def test_newest_texts_are_bounded_in_number_and_length():
    texts = RunTexts()
    texts.note("first", (1,))
    texts.note("", (1,))
    for number in range(TEXTS_MAX):
        texts.note(str(number), (number,) * (TEXT_TOKENS_MAX + 1))
    assert (texts.of("first"), texts.of("")) == ((), ())
    assert len(texts.of("3")) == TEXT_TOKENS_MAX


def test_the_texts_of_a_run_that_has_rested_too_long_take_no_memory():
    class Token:
        """One that can be watched."""

    runs, token = ProgramRuns(), Token()
    kept = weakref.ref(token)
    runs.joined("", CALLER, 1, 0.0).texts.note("retrieve", (token,))
    del token
    runs.joined("", Caller("other"), 2, IDLE_S_MAX)
    assert kept() is not None
    runs.joined("", Caller("other"), 3, IDLE_S_MAX + 0.5)
    assert kept() is None
