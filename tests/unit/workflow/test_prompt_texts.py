"""The prompts in files: each is a template, and ends with one line end that isn't part of it."""

from pathlib import Path

import pytest

import heddle.workflow
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.template import parse_template

FOLDER = Path(heddle.workflow.__file__).parent / "prompts"


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_a_prompt_is_a_template(path: Path):
    text = prompt_text(path.stem)
    assert path.read_text(encoding="utf-8") == f"{text}\n"
    assert text == text.strip()
    assert parse_template(text, where=path.stem).slots
