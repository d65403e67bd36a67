"""fusion-quality: what its cells are, what its headline says, and that a stopped run goes on."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import fusion_quality
from benchmarks.fusion_quality import (
    BAR,
    FULL,
    FUSIONRAG,
    PRECEDING,
    PRECEDING_0,
    PRIMED,
    REUSE,
    SHORT,
    Cell,
    Table,
    cells_of,
    table_cells,
)
from benchmarks.support.score_file import Score
from heddle.app.models.model_source import READER
from heddle.core.errors import InputError
from heddle.core.kv_reuse import ReusePolicy
from heddle.evals.dataset import Dataset
from heddle.evals.question import EvalQuestion

KINDS = ("two_hop", "coreference")
OTHER = Cell(ReusePolicy.EPIC, 0.15)
WORSE = Cell(ReusePolicy.EPIC, 0.15, 10, nearest_only=True)
OURS = Cell(ReusePolicy.EPIC, 0.15, 10)


def question(kind: str) -> EvalQuestion:
    return EvalQuestion(kind, "?", ("x",), kind=kind)


def table(f1: dict[Cell, tuple[float, ...]]) -> Table:
    count = len(f1[FULL])
    kinds = [KINDS[i % 2] for i in range(count)]
    questions = tuple(EvalQuestion(str(i), "?", ("x",), kind=kinds[i]) for i in range(count))
    scores = {
        cell: tuple(
            Score(cell.name, str(i), kinds[i], value, value, "x", 100, 10, 0)
            for i, value in enumerate(values)
        )
        for cell, values in f1.items()
    }
    return Table("made up", questions, scores, seed=0)


def test_the_full_table_has_every_policy_ratio_and_neighbourhood_once():
    cells = table_cells()
    assert len({cell.name for cell in cells}) == len(cells)
    assert set(BAR) <= set(cells)
    for policy in set(ReusePolicy) - {ReusePolicy.FULL, ReusePolicy.FULL_REUSE}:
        found = {(cell.ratio, cell.top_n) for cell in cells if cell.policy is policy}
        assert found >= {(ratio, n) for ratio in (0.05, 0.10, 0.15, 0.30) for n in (0, 10)}
    sweep = {(cell.ratio, cell.top_n) for cell in cells if cell.policy is ReusePolicy.FUSIONRAG}
    assert sweep >= {(0.05, n) for n in (0, 2, 5, 10, 15)}
    assert {c.top_n for c in cells if c.policy is ReusePolicy.FULL_REUSE} == {0, 1, 2, 5, 10, 15}
    published = {c.name for c in cells if c.nearest_only}
    assert {f"fusionrag 0.05 top-{n} nearest only" for n in (2, 5, 10, 15)} <= published
    assert all(cell.reuse.primed == (cell.top_n > 0) for cell in cells)


def test_other_data_sets_are_asked_in_some_of_the_cells():
    assert cells_of("reader-notes") == table_cells()
    cells = cells_of("wiki_multihop")
    assert set(cells) < set(table_cells())
    assert len(cells) == len(set(cells)) == 9
    assert {FULL, REUSE, PRIMED, FUSIONRAG} < set(cells)


def test_comparisons_of_the_notes_are_left_out_because_the_reader_guesses_them():
    asked = Dataset("reader-notes", (question("comparison"), question("two_hop")))
    left = fusion_quality.tellable(asked, READER).questions
    assert [q.kind for q in left] == ["two_hop"]
    other = replace(asked, name="of a user")
    assert fusion_quality.tellable(other, READER) == other
    assert fusion_quality.tellable(asked, "a model of a user") == asked


def test_the_headline():
    found = table(
        {
            FULL: (1.0, 1.0, 1.0, 1.0),
            REUSE: (0.5, 0.0, 0.5, 0.0),
            PRIMED: (0.5, 0.5, 0.5, 0.5),
            FUSIONRAG: (1.0, 0.8, 1.0, 0.8),
            PRECEDING_0: (0.75, 0.75, 0.75, 0.75),
            PRECEDING: (1.0, 1.0, 1.0, 1.0),
            OTHER: (0.7, 0.5, 0.7, 0.5),
            WORSE: (0.0, 0.0, 0.0, 0.0),
            OURS: (1.0, 1.0, 1.0, 1.0),  # ADR 20's neighbours under another policy
        }
    )
    assert found.best_other == OTHER
    assert found.headline() == pytest.approx(
        {
            "nf1_fusionrag_15": 100 * (0.9 - 0.25) / 0.75,
            "nf1_primed_0": 100 * (0.5 - 0.25) / 0.75,
            "gain_over_best_other_low95": 0.3,
            "f1_full": 1.0,
            "f1_reuse": 0.25,
            "f1_primed_0": 0.5,
            "gain_primed_0_low95": 0.0,
            "drop_coreference": 1.0,
            "drop_two_hop": 0.5,
            "preceding_nf1_fusionrag_15": 100.0,
            "preceding_nf1_primed_0": 100 * (0.75 - 0.25) / 0.75,
            "preceding_gain_fusionrag_15_low95": 0.0,
            "preceding_gain_primed_0_low95": 0.25,
        }
    )


def test_questions_that_measure_nothing_are_called_so(capsys):
    values = dict.fromkeys((*BAR, OTHER), (0.5, 0.5))
    found = table({**values, FULL: (0.55, 0.55)})
    found.show()
    assert "NOT MEASURED: full reuse loses only 0.050 F1" in capsys.readouterr().out
    table(values | {FULL: (0.7, 0.7)}).show()
    assert "NOT MEASURED" not in capsys.readouterr().out
    assert table(values).headline()["nf1_fusionrag_15"] == 0.0  # nothing lost, nothing to win


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(
    tiny_directory: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    wanted = {"model": str(tiny_directory), "dataset": str(notes), "questions": 3}
    first = fusion_quality.run(False, 0, **wanted)
    [kept] = (tmp_path / "cache").rglob("*.jsonl")
    lines = kept.read_text().splitlines()
    assert sum(map(bool, lines)) == 3 * len(SHORT)
    kept.write_text("\n".join(lines[:-1]))  # the last score is lost

    answered = []
    add = fusion_quality.ScoreFile.add
    monkeypatch.setattr(
        fusion_quality.ScoreFile, "add", lambda s, score: (answered.append(score), add(s, score))
    )
    again = fusion_quality.run(False, 0, **wanted)
    assert len(answered) == 1
    assert again == first
    assert {row["computed"] for row in first["rows"] if row["cell"] == FULL.name} == {1.0}
    shares = {row["cell"]: row["computed"] for row in first["rows"]}
    assert shares[REUSE.name] < shares[FUSIONRAG.name] < 0.5


def test_data_sets_that_cannot_be_answered(tiny_directory: Path, tmp_path: Path):
    model = str(tiny_directory)
    with pytest.raises(InputError, match="nowhere"):
        fusion_quality.run(True, 0, model=model, dataset="nowhere")
    path = tmp_path / "open.json"
    path.write_text("[]")
    with pytest.raises(InputError, match="holds no questions"):
        fusion_quality.run(True, 0, model=model, dataset=str(path))
