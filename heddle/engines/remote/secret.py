"""A key that is sent to one server and shown nowhere."""

import re
from dataclasses import dataclass, field
from typing import Final

from heddle.core.errors import ConfigError

HIDDEN: Final = "[key]"
_HEADER_SAFE: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Secret:
    """A key; neither `repr` nor `str` shows it. An empty one stands for no key.

    Args:
        source: the environment variable that it came from, for messages.

    Raises:
        ConfigError: a header can't carry it.
    """

    value: str = field(default="", repr=False)
    source: str = ""

    def __post_init__(self) -> None:
        if self.value and not _HEADER_SAFE.fullmatch(self.value):
            raise ConfigError(
                f"the key in {self.source} holds a blank, a line end or a character that is not "
                "ASCII: set it again"
            )

    def __str__(self) -> str:
        return HIDDEN if self.value else "no key"

    @property
    def header(self) -> str:
        """The Authorization header's line; empty where there is no key."""
        return f"Authorization: Bearer {self.value}\r\n" if self.value else ""

    def redacted(self, text: str) -> str:
        """Return a text with the key hidden."""
        return text.replace(self.value, HIDDEN) if self.value else text


NO_KEY: Final = Secret()
