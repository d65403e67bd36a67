"""How a server's answers are written where a request doesn't say."""

from pathlib import Path

from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError
from heddle.workflow.writing import PROMPT_CHARS_MAX, Writing


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
