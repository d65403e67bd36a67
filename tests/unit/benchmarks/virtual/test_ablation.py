from benchmarks.ablation import effects_of, ways
from benchmarks.virtual.cells import Cell
from benchmarks.virtual.contenders import FIFO, LEVERS, OWN, SAME


def cell(contender, p50_s):
    return Cell("heavy", "five", 0.8, contender, 10, (p50_s,), (p50_s,), {})


def test_every_lever_is_run_alone_and_left_out() -> None:
    assert {f"{how} {lever}" for how in ("alone", "off") for lever in LEVERS} < set(ways())


def test_above_one_says_that_a_lever_pays() -> None:
    found = {
        OWN: cell(OWN, 1.0),
        SAME: cell(SAME, 1.2),
        FIFO: cell(FIFO, 1.5),
        "off split_prefill": cell("off split_prefill", 1.1),
        "alone split_prefill": cell("alone split_prefill", 1.0),
        "order blind": cell("order blind", 2.0),
    }
    effects = {(e.how, e.lever): e.x_p50 for e in effects_of(found)}
    assert effects == {
        ("off", "split_prefill"): 1.1,
        ("alone", "split_prefill"): 1.2,
        ("order", "blind"): 0.5,
    }
