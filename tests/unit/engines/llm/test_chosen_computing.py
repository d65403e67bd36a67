"""A choice is made once for a model on a machine, by all who ask, and is kept."""

from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from heddle.core import instruction_sets
from heddle.engines.llm.chosen_computing import (
    Candidate,
    Choice,
    candidates_of,
    choose,
    kept_choice,
    kept_or_timed,
    key_of,
)

HALF, WHOLE = Candidate("bfloat16", "compiled"), Candidate("float32", "torch")
BOTH = (HALF, WHOLE)


class Stopwatch:
    """Says what each candidate takes, and counts how often it was asked."""

    def __init__(self, **seconds):
        self.seconds = seconds
        self.asked = []

    def __call__(self, candidate):
        self.asked.append(candidate)
        return self.seconds[candidate.dtype]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("first_s", "second_s", "chosen"), [(1.0, 2.0, HALF), (1.05, 1.0, HALF), (1.2, 1.0, WHOLE)]
)
def test_the_first_is_taken_unless_another_is_clearly_faster(first_s, second_s, chosen):
    assert choose(((HALF, first_s), (WHOLE, second_s))).chosen == chosen


def test_why_is_told():
    said = str(choose(((HALF, 0.012), (WHOLE, 0.03))))
    assert said.startswith("bfloat16, attention by compiled (")
    assert "12 ms by bfloat16" in said
    assert "30 ms by float32" in said


def test_what_was_timed_is_kept_for_this_model_alone(cache):
    watch = Stopwatch(bfloat16=3.0, float32=1.0)
    first = kept_or_timed("one", BOTH, watch)
    assert first == Choice(WHOLE, ((HALF, 3.0), (WHOLE, 1.0)))
    assert kept_or_timed("one", BOTH, watch) == first
    assert watch.asked == [HALF, WHOLE]
    kept_or_timed("other", BOTH, watch)
    assert len(watch.asked) == 4
    (cache / "computing" / "one.json").write_text('[["bfloat16", "compiled", "soon"]]')
    assert kept_or_timed("one", BOTH, watch) == first
    assert len(watch.asked) == 6, "what is torn is timed anew"


def test_the_key_follows_sizes_candidates_threads_and_instructions(tmp_path, monkeypatch):
    for name, layers in (("one", 2), ("other", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(f'{{"num_hidden_layers": {layers}}}')
    one, other = tmp_path / "one", tmp_path / "other"
    keys = {key_of(*what) for what in ((one, BOTH, 2), (other, BOTH, 2), (one, BOTH, 1))}
    assert len(keys | {key_of(one, (HALF,), 2)}) == 4
    assert key_of(one, BOTH, 2) in keys
    monkeypatch.setenv("HEDDLE_HELD", "avx2")
    assert key_of(one, BOTH, 2) not in keys


def test_what_is_kept_is_read_without_timing_anything(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert kept_choice(tmp_path, BOTH, 2) is None
    choice = kept_or_timed(key_of(tmp_path, BOTH, 2), BOTH, Stopwatch(bfloat16=3.0, float32=1.0))
    assert kept_choice(tmp_path, BOTH, 2) == choice
    assert kept_choice(tmp_path, (WHOLE,), 2) == Choice(WHOLE)


def test_candidates_are_what_the_cpu_computes(monkeypatch):
    flags = {"avx2", "amx_bf16"}
    monkeypatch.setattr(instruction_sets, "machine_flags", lambda _: frozenset(flags))
    monkeypatch.delenv("HEDDLE_HELD", raising=False)
    monkeypatch.delenv("HEDDLE_AUTO_DTYPE", raising=False)
    assert candidates_of("float32", "torch") == (Candidate("float32", "torch"),)
    dtypes = [candidate.dtype for candidate in candidates_of("auto", "compiled")]
    assert dtypes == ["bfloat16", "float32"]
    monkeypatch.setenv("HEDDLE_HELD", "avx2")
    assert candidates_of("auto", "compiled") == (Candidate("float32", "compiled"),)
    monkeypatch.delenv("HEDDLE_HELD")
    flags.discard("amx_bf16")
    ways = [(candidate.dtype, candidate.attention) for candidate in candidates_of("auto", "auto")]
    assert ways == [("float32", "compiled"), ("float32", "torch")]
    monkeypatch.setenv("HEDDLE_AUTO_DTYPE", "bfloat16")
    assert candidates_of("auto", "compiled") == (HALF,)


def test_lanes_that_start_together_time_once():
    class Slow(Stopwatch):
        def __call__(self, candidate):
            sleep(0.05)
            return super().__call__(candidate)

    watch = Slow(bfloat16=1.0, float32=2.0)
    with ThreadPoolExecutor(3) as lanes:
        found = list(lanes.map(lambda _: kept_or_timed("one", BOTH, watch), range(3)))
    assert watch.asked == [HALF, WHOLE]
    assert found == [found[0]] * 3


def test_nothing_is_timed_where_there_is_no_choice_or_no_place_to_keep_it(
    monkeypatch, tmp_path, caplog
):
    watch = Stopwatch(bfloat16=2.0, float32=1.0)
    assert kept_or_timed("one", (WHOLE,), watch) == Choice(WHOLE)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "file"))
    assert kept_or_timed("one", BOTH, watch) == Choice(HALF)
    assert "nothing was timed, bfloat16, attention by compiled is taken" in caplog.text
    assert watch.asked == []
