"""How prompts are computed: the methods that answer quality is compared by."""

from collections.abc import Mapping
from typing import Final

from heddle.core.errors import ConfigError

FULL: Final = "full"
METHODS: Final[Mapping[str, str]] = {
    FULL: "full attention: every token of the prompt attends to all before it",
}


def require_method(name: str) -> str:
    """Return the name of a known method.

    Raises:
        ConfigError: there is no such method.
    """
    if name not in METHODS:
        raise ConfigError(f"method {name!r} is unknown; there are {', '.join(METHODS)}")
    return name
