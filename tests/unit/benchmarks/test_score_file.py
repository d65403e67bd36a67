from pathlib import Path

from benchmarks.support.score_file import Score, ScoreFile


def score(question: str, cell: str = "full 0.00", f1: float = 0.5) -> Score:
    return Score(cell, question, "single_hop", f1, 0.0, "an\u2028answer", 100, 20, 5)


def test_scores_are_there_again_and_only_of_their_cell(tmp_path: Path):
    path = tmp_path / "scores.jsonl"
    first = ScoreFile(path)
    first.add(score("a"))
    first.add(score("b"))
    first.add(score("a", "epic 0.15"))
    again = ScoreFile(path)
    assert again.of("full 0.00") == {"a": score("a"), "b": score("b")}
    assert again.of("epic 0.15") == {"a": score("a", "epic 0.15")}
    assert again.of("fusionrag 0.15") == {}


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path):
    path = tmp_path / "scores.jsonl"
    ScoreFile(path).add(score("a"))
    with path.open("a") as lines:
        lines.write('\n{"cell": "full 0.00", "quest')
    torn = ScoreFile(path)
    torn.add(score("b"))
    assert list(ScoreFile(path).of("full 0.00")) == ["a", "b"]


def test_without_a_path_nothing_is_kept():
    file = ScoreFile(None)
    file.add(score("a"))
    assert file.of("full 0.00") == {"a": score("a")}
    assert ScoreFile(None).of("full 0.00") == {}
