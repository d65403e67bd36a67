"""The tasks of `heddle bench structured`, and its judgement of a text; no model writes here."""

import pytest

pytest.importorskip("jsonschema", reason="jsonschema is not installed")
pytest.importorskip("llguidance", reason="llguidance is not installed")

from benchmarks import structured
from benchmarks.support.structured_tasks import tasks
from heddle.engines.llm.constrained.grammar_text import problem_of


def test_every_form_can_be_kept():
    forms = {task.name: task.constraint for task in tasks()}
    assert len(forms) == len(tasks()) >= 40
    assert {name: problem_of(form) for name, form in forms.items() if problem_of(form)} == {}


def test_a_quick_run_has_every_kind():
    kinds = {task.name.partition("/")[0] for task in tasks()}
    quick = {task.name.partition("/")[0] for task in tasks()[: structured.QUICK]}
    assert quick == kinds


@pytest.mark.parametrize(
    ("name", "text", "is_valid"),
    [
        ("enum/mood", '{"mood": "good"}', True),
        ("enum/mood", '{"mood": "great"}', False),
        ("enum/mood", '{"mood": "good"', False),
        ("pattern/date", '{"day": "1969-07-20"}', True),
        ("pattern/date", '{"day": "1969-20-07"}', False),
        ("tool/named_clock", '{"name": "now", "arguments": {}}', True),
        ("tool/named_clock", '{"name": "search", "arguments": {}}', False),
        ("tool/any", '{"name": "get_weather", "arguments": {"city": "Bergen"}}', False),
        ("tool/any", "It is warm.", False),
    ],
)
def test_a_text_is_judged_by_its_schema(name: str, text: str, is_valid: bool):
    (task,) = (one for one in tasks() if one.name == name)
    assert task.is_met_by(text) is is_valid
