"""An explanation as text: one table, one path, and nothing that commands a terminal."""

from heddle.app.explain.explanation import Explainer, Explanation
from heddle.cli.output.explained.text import explanation_lines
from heddle.graph.render import render_text
from heddle.passes.runner import PassRunner
from heddle.workflow.workflow import Workflow
from tests.helpers.fake_ports import ManualClock


def said(explanation: Explanation) -> str:
    return "\n".join(explanation_lines(explanation, render_text))


def cells(text: str, first: str) -> list[str]:
    """Return the words of the line that begins with a word."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(first)]
    return line.split()


def test_the_table_has_a_row_for_each_stage_and_the_whole(measured: Explanation):
    text = said(measured)
    assert "measured, medians of 2 runs with nothing else under way:" in text
    assert cells(text, "stage") == [
        "stage",
        "engine",
        "waited",
        "ran",
        "share",
        "worked",
        "predicted",
    ]
    assert "embedding@0 x3" in text
    assert "answer.decoding@0" in text
    assert cells(text, "the whole request")[3:] == ["3.250", "s", "100%"]
    row = next(line for line in text.splitlines() if "searching@0 " in line and "vector" in line)
    assert row.split("vector")[1].split() == [
        *("250.000", "ms", "500.000", "ms", "15%", "500.000", "ms", "not", "measured")
    ]


def test_the_path_adds_up_to_the_answer(measured: Explanation):
    text = said(measured)
    assert cells(text, "critical path of the middle run")[6:] == ["between", "waited", "ran"]
    assert cells(text, "until the answer")[3:] == ["250.000", "ms"]
    assert "two or more worked at once" in text
    assert "overlap: in 9.1% of the time" in text


def test_passes_have_gains_and_reasons(measured: Explanation):
    text = said(measured)
    assert "pass prune_dependencies: longest way as long as before: 1 order edge removed" in text
    assert "pass pipeline_decoding: no change: no generation writes a list for a search" in text
    assert "split_substages: it acted in 3 of 4 cycles, predicted gains 500.000 ms in all" in text
    assert "speculate_prefill: no cycle has asked it" in text


def test_waits_of_a_function_and_steps_that_are_missing_are_told(measured: Explanation):
    text = said(measured)
    assert "line 3 waited for" in text
    assert "7 steps of engines came after the last one that was kept" in text


def test_what_passes_began_early_is_told(measured: Explanation):
    text = said(measured)
    assert "came again in a loop, so that their text was there: 1" in text
    assert "before the list or stage that they are of was whole: 3" in text
    assert "each of which saved a step of the model: 5" in text
    assert "prompts computed ahead: 2, of which 1 were used" in text


def test_no_line_commands_the_terminal(measured: Explanation):
    assert "\x1b" not in said(measured)


def test_without_runs_nothing_is_made_up(unmeasured: Explanation):
    text = said(unmeasured)
    assert "as lowered (longest way: not measured):" in text
    assert "gain not measured: 1 order edge removed" in text
    assert "critical path" not in text


def test_where_no_pass_runs_none_is_listed(evil: Workflow):
    explainer = Explainer(PassRunner(ManualClock()), has_passes=False)
    text = said(explainer.explain(evil, None))
    assert "optimizations is off: no pass runs." in text
    assert "prune_dependencies" not in text
    assert "split_substages" not in text
