from benchmarks.virtual.contenders import (
    FIFO,
    GATHER,
    LEVERS,
    ORDERS,
    OWN,
    SAME,
    WAYS,
    with_lever_alone,
    with_lever_off,
    with_order,
)
from heddle.core.call_order import FirstServed
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES, check_pass_names
from heddle.runtime.batching import FIRST_SERVED


def test_every_pass_is_a_lever_but_the_one_that_stands_for_gather() -> None:
    names = [one.name for one in GRAPH_PASSES] + [one.name for one in CYCLE_PASSES]
    assert sorted([*LEVERS, GATHER]) == sorted(names)
    check_pass_names(frozenset(LEVERS))


def test_programs_written_by_hand_have_no_pass_but_that_one() -> None:
    assert WAYS[FIFO].disabled == WAYS[SAME].disabled == frozenset(LEVERS)
    assert not WAYS[OWN].disabled


def test_a_lever_alone_and_a_lever_off_part_the_levers() -> None:
    for name in LEVERS:
        assert with_lever_off(name).disabled == {name}
        assert with_lever_alone(name).disabled == frozenset(LEVERS) - {name}


def test_the_runtime_speculates_as_a_server_does_or_for_a_lever_that_needs_it() -> None:
    assert WAYS[OWN].speculates
    assert with_lever_off("skip_repeats").speculates
    assert with_order(ORDERS[0]).speculates
    assert with_lever_alone("speculate_prefill").speculates
    assert not with_lever_alone("skip_repeats").speculates


def test_each_other_order_of_the_engines_is_there_once() -> None:
    others = {FIRST_SERVED[name] for name in ORDERS}
    assert others == set(FirstServed) - {FirstServed.SHORTEST}
