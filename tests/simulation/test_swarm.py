"""Each seed has its own mix of faults; servers crash; a broken seed says how little breaks it."""

import subprocess
import sys
from dataclasses import replace

from heddle.runtime.events import Answer
from heddle.simulator.faults import Fault, FaultRates
from heddle.simulator.simulation import Scenario, attempt, random_scenario, simulate

SEEDS = range(200)
CRASHES = Scenario(seed=11, requests=60, rate_per_s=10.0, rates=FaultRates(crash_server=0.1))


def rates_of(seed):
    rates = random_scenario(seed).rates
    return {fault: getattr(rates, fault.value) for fault in Fault}


def test_each_kind_of_fault_is_drawn_by_some_seeds_and_left_out_by_others():
    drawn = [rates_of(seed) for seed in SEEDS]
    faulty = [rates for rates in drawn if any(rates.values())]
    for fault in Fault:
        share = sum(rates[fault] > 0 for rates in faulty) / len(faulty)
        assert 0.3 < share < 0.7, fault
    assert 0.1 < 1 - len(faulty) / len(drawn) < 0.5


def test_the_server_crashes_and_serves_again():
    done = attempt(CRASHES)
    assert not done.problems
    assert done.world.faults_drawn()[Fault.CRASH_SERVER] > 1
    ends = [ticket.end_name for ticket in done.world.tickets]
    assert "CutOff" in ends
    first_cut = ends.index("CutOff")
    assert "Answer" in ends[:first_cut]
    assert "Answer" in ends[first_cut:]


def test_what_was_stored_before_a_crash_is_there_after_it():
    world = attempt(CRASHES).world
    told = [
        ticket.arrival.inputs["chunk_ids"]
        for ticket in world.tickets
        if isinstance(ticket.end, Answer) and "chunk_ids" in ticket.arrival.inputs
    ]
    assert told
    assert world.disk.stored >= {chunk_id for chunk_ids in told for chunk_id in chunk_ids}


def test_a_crash_replays():
    assert simulate(CRASHES).digest == simulate(CRASHES).digest
    assert simulate(CRASHES).digest != simulate(replace(CRASHES, strikes=frozenset())).digest


def run(*options, planted=True):
    """Run the command with a runtime that folds repeated frames; return (code, stdout, stderr)."""
    plant = "FrameIntake._is_next = lambda self, lane, frame, now_s, is_next=FrameIntake._is_next: "
    plant += "is_next(self, lane, frame, now_s) or True"
    script = (
        "import sys\n"
        "from heddle.runtime.frame_intake import FrameIntake\n"
        f"{plant if planted else ''}\n"
        "from heddle.simulator.__main__ import main\n"
        f"sys.exit(main({list(options)!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_shrinks_what_it_finds_and_replays_that():
    code, _, said = run("--seed", "100100", "--count", "60")
    assert code == 1
    assert "shrunk to 1 request(s) and 1 fault(s):" in said
    command = said.rpartition("replay it with: ")[2].split()
    assert command[:3] == ["python", "-m", "heddle.simulator"]
    code, log, said = run(*command[3:])
    assert code == 1
    assert "which wrote" in said
    assert "shrunk" not in said
    assert log
    code, _, _ = run(*command[3:], planted=False)
    assert code == 0


def test_the_command_says_how_many_seeds_it_runs_a_second():
    command = [sys.executable, "-m", "heddle.simulator", "--seed", "5", "--count", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "a second" in done.stdout.splitlines()[-1]
