"""The prompts that a model's directory brings."""

from pathlib import Path
from typing import Final

from heddle.engines.llm.text.chat_template import read_json
from heddle.workflow.model_prompts import ModelPrompts, model_prompts

PROMPTS_FILE: Final = "heddle_prompts.json"


def prompts_of(directory: Path) -> ModelPrompts:
    """Return the prompts that a model's directory names, by role; none where it has no such file.

    Raises:
        ConfigError: the file can't be used; the message names the role and the field.
    """
    path = directory / PROMPTS_FILE
    return model_prompts(read_json(path), str(path))
