"""The figures of several campaigns, and which are off."""

from collections import Counter

import pytest

from tools.attacks.chaos.__main__ import BROKEN, PLAN, REQUESTS, headline_of, wrong_figures
from tools.attacks.chaos.campaign import Campaign
from tools.attacks.chaos.cluster import head_figures
from tools.attacks.chaos.faults import FAULTS
from tools.attacks.chaos.ledger import Ledger
from tools.attacks.configuration import CHANGES, Configuration

REPLICAS = Configuration("replicas", has_replicas=True)
FAULTS_MIN, REQUESTS_MIN = 60, 3_000


def campaign(
    configuration: Configuration = CHANGES,
    kill_pauses_s: list[float] | None = None,
    wrong_exits: int = 0,
    **counts: int,
) -> Campaign:
    exits = {True: 3, False: wrong_exits}
    faults = Counter({"kill": 2, "stop": 1})
    return Campaign(
        configuration, Ledger(**counts), faults, exits, kill_pauses_s or [0.5], [3.0], [], 8.0
    )


def test_the_full_size_is_what_is_asked_for() -> None:
    assert REQUESTS >= REQUESTS_MIN
    assert len(BROKEN) * len(PLAN) >= FAULTS_MIN
    assert set(PLAN) == set(FAULTS)


def test_counts_add_up_and_pauses_are_the_longest() -> None:
    done = [campaign(requests=10, lost=1), campaign(REPLICAS, [0.7], requests=20)]
    headline = headline_of(done)
    assert (headline["requests"], headline["lost"], headline["faults"]) == (30, 1, 6)
    assert (headline["pause_kill_replica_s"], headline["pause_freeze_replica_s"]) == (0.7, 3.0)
    assert headline["pause_single_s"] == 3.0
    assert (headline["exits"], headline["exits_right"]) == (6, 6)


def test_nothing_is_off_after_a_good_run() -> None:
    done = [campaign(), campaign(REPLICAS)]
    assert wrong_figures(done, headline_of(done)) == []


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (campaign(lost=1), "lost is 1"),
        (campaign(answered_twice=2), "answered_twice is 2"),
        (campaign(shown_twice=1), "shown_twice is 1"),
        (campaign(REPLICAS, [1.5]), "pause_kill_replica_s is 1.5, above 1"),
        (campaign(CHANGES, [18.5]), "pause_single_s is 18.5, above 18"),
        (campaign(wrong_exits=1), "3 of 4 exit codes were right"),
    ],
)
def test_each_figure_that_is_off_is_named(one: Campaign, words: str) -> None:
    (line,) = wrong_figures([one], headline_of([one]))
    assert line.startswith(words)


def test_a_campaign_without_a_fault_shows_nothing() -> None:
    idle = campaign()
    idle.faults.clear()
    assert wrong_figures([idle], headline_of([idle])) == ["a configuration met no fault"]


def test_losses_of_the_head_are_counted_apart() -> None:
    one, other = campaign(), campaign()
    one.head_pauses_s.extend((0.25, 0.5))
    assert head_figures([one, other]) == {"head_losses": 2, "pause_head_s": 0.5}
