"""`heddle simulate pool`: a table for every placement and load, a plot, an answer, and refusals."""

import json

import pytest

from heddle.cli.main import main

QUICK = ["simulate", "pool", "--duration-s", "2", "--answer-tokens", "32"]


def test_it_prints_a_table_and_an_answer_and_draws(tmp_path, capsys):
    plot, table = tmp_path / "pool.svg", tmp_path / "pool.json"
    code = main([*QUICK, "--prompts-per-s", "2", "6", "--plot", str(plot), "--json", str(table)])
    told = capsys.readouterr().out
    assert code == 0
    assert told.count("coupled:") == told.count("with_prefill:") == 2
    assert told.count("vector GPUs that a pool needs for this SLO: 1") == 2
    assert "MODELLED" in told
    assert "saturates at" in told
    assert plot.read_text().startswith("<svg")
    rows = json.loads(table.read_text())["rows"]
    assert [row["placement"] for row in rows] == ["coupled", "with_prefill", "pool"] * 2


def test_an_slo_that_nothing_keeps_is_said(capsys):
    assert main([*QUICK, "--prompts-per-s", "1", "--ttft-s", "0.001"]) == 0
    assert "no pool of up to" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [
        ["--prompts-per-s", "0"],
        ["--probe-every", "0"],
        ["--pool-gpus", "0"],
        ["--vectors", "1e12"],
        ["--ttft-s", "nan"],
        ["--plot", "pool.png"],
    ],
)
def test_what_makes_no_sense_is_refused(wrong, capsys):
    assert main([*QUICK, *wrong]) == 2
    assert "error:" in capsys.readouterr().err
