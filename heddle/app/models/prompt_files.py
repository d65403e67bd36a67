"""Prompts that stand in files: a model's own, and the template that a user names."""

from pathlib import Path
from typing import Final

from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError
from heddle.engines.llm.text.chat_template import read_json
from heddle.workflow.model_prompts import ModelPrompts, model_prompts
from heddle.workflow.writing import PROMPT_CHARS_MAX, Writing

PROMPTS_FILE: Final = "heddle_prompts.json"


def prompts_of(directory: Path) -> ModelPrompts:
    """Return the prompts that a model's directory names, by role; none where it has no such file.

    Raises:
        ConfigError: the file can't be used; the message names the role and the field.
    """
    path = directory / PROMPTS_FILE
    return model_prompts(read_json(path), str(path))


def server_writing(config: ServerConfig) -> Writing:
    """Return how a server's answers are written where a request doesn't say.

    Raises:
        InputError, ConfigError: a value or the prompt's file can't be used.
    """
    prompt = None if config.prompt_file is None else _read_prompt(Path(config.prompt_file))
    return Writing.of(
        {
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
            "system": config.system,
            "prompt": prompt,
        }
    )


def _read_prompt(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(PROMPT_CHARS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigError(f"prompt: {str(path)!r} can't be read: {reason}") from error
    if len(text) > PROMPT_CHARS_MAX:
        raise InputError(f"prompt: {str(path)!r} has more than {PROMPT_CHARS_MAX:,} characters")
    return text.removesuffix("\n")
