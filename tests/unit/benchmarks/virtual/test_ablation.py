from benchmarks.ablation import effects_of, ways
from benchmarks.virtual.cells import Cell
from benchmarks.virtual.contenders import FIFO, LEVERS, OWN, SAME


def cell(contender, p50_s):
    return Cell("heavy", "five", 0.8, contender, 10, (p50_s,), (p50_s,), {})


def test_every_lever_is_run_alone_and_left_out_or_added() -> None:
    names = set(ways())
    for lever in LEVERS:
        assert f"alone {lever}" in names
        assert len({f"off {lever}", f"added {lever}"} & names) == 1


def test_above_one_says_that_a_lever_pays() -> None:
    found = {
        OWN: cell(OWN, 1.0),
        SAME: cell(SAME, 1.2),
        FIFO: cell(FIFO, 1.5),
        "off split_prefill": cell("off split_prefill", 1.1),
        "alone split_prefill": cell("alone split_prefill", 1.0),
        "added speculate_prefill": cell("added speculate_prefill", 0.5),
        "order blind": cell("order blind", 2.0),
    }
    effects = {(e.how, e.lever): e.x_p50 for e in effects_of(found)}
    assert effects == {
        ("off", "split_prefill"): 1.1,
        ("alone", "split_prefill"): 1.2,
        ("added", "speculate_prefill"): 2.0,
        ("order", "blind"): 0.5,
    }
