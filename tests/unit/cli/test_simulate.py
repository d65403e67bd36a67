"""`heddle simulate pool`: a table for every placement and load, a plot, an answer, and refusals."""

import json
import re

import pytest

from heddle.cli.main import main
from heddle.cli.simulate import smallest

QUICK = ["simulate", "pool", "--duration-s", "2", "--answer-tokens", "32", "--probe-every", "16"]


def test_it_prints_a_table_and_an_answer_and_draws(tmp_path, capsys):
    plot, table = tmp_path / "pool.svg", tmp_path / "pool.json"
    load = ["--prompts-per-s", "2", "6", "--prompt-tokens", "4000"]
    code = main([*QUICK, *load, "--plot", str(plot), "--json", str(table)])
    told = capsys.readouterr().out
    assert code == 0
    assert told.count("coupled:") == told.count("with_prefill:") == 2
    assert told.count("vector GPUs that a pool needs for this SLO: 1") == 2
    assert "MODELLED" in told
    assert re.search(r"decode \(4032 tokens each\) +\(\d+\) +\d{4} ", told)  # beyond its memory
    assert "<svg" in plot.read_text()
    told = json.loads(table.read_text())
    assert [answer["pool_gpus_needed"] for answer in told["answers"]] == [1, 1]
    rows = told["rows"]
    assert [row["placement"] for row in rows] == ["coupled", "with_prefill", "pool"] * 2


@pytest.mark.parametrize("most", [1, 5, 64])
def test_the_smallest_number_is_found_with_few_tries(most):
    for least in range(1, most + 2):
        tried = []

        def is_enough(number, least=least, tried=tried):
            tried.append(number)
            return number >= least

        assert smallest(is_enough, most) == (least if least <= most else None)
        assert len(tried) == len(set(tried)) <= 2 * most.bit_length()
        assert all(1 <= number <= most for number in tried)


def test_an_slo_that_nothing_keeps_is_said(capsys):
    assert main([*QUICK, "--prompts-per-s", "1", "--ttft-s", "0.001"]) == 0
    told = capsys.readouterr().out
    assert "no pool of up to" in told
    assert "with the most, TTFT p95 is" in told


@pytest.mark.parametrize(
    "wrong",
    [
        ["--prompts-per-s", "0"],
        ["--probe-every", "0"],
        ["--pool-gpus", "0"],
        ["--vectors", "1e12"],
        ["--prompt-tokens", "9000000"],
        ["--ttft-s", "nan"],
        ["--plot", "pool.png"],
        ["--load", "0.5"],
    ],
)
def test_what_makes_no_sense_is_refused(wrong, capsys):
    assert main([*QUICK, *wrong]) == 2
    assert "error:" in capsys.readouterr().err


def test_a_run_shorter_than_its_answers_is_refused_with_the_length_it_needs(capsys):
    assert main(["simulate", "pool", "--prompts-per-s", "60", "--duration-s", "5"]) == 2
    assert re.search(r"an answer takes .* s .* give at least \d+$", capsys.readouterr().err.strip())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "needs --calibrate"),
        (["--calibrate", "none.json"], "none.json isn't there"),
        (["--calibrate", "none.json", "--load", "nan"], "--load: need more than 0"),
        (["--calibrate", "none.json", "--extends", "9"], "--extends is no option of"),
    ],
)
def test_a_cell_without_what_it_needs_is_refused(wrong, said, capsys):
    assert main(["simulate", "cell", *wrong]) == 2
    assert said in capsys.readouterr().err
