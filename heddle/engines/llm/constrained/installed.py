"""Whether texts can be constrained in this installation."""

from importlib.util import find_spec
from typing import Final

INSTALL: Final = "pip install 'heddle[structured]'"


def missing() -> str:
    """Return what is not installed and the command that changes it; empty where all is there."""
    if find_spec("llguidance") is not None:
        return ""
    return f"constrained text needs the package llguidance, which is not installed: {INSTALL}"
