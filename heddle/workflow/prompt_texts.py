"""The prompts of the ready-made workflows: files in `prompts/`, one a prompt."""

from functools import cache
from importlib.resources import files


@cache
def prompt_text(name: str) -> str:
    """Return a prompt's template; its file ends with a line end that isn't part of it."""
    path = files("heddle.workflow") / "prompts" / f"{name}.txt"
    return path.read_text(encoding="utf-8").removesuffix("\n")
