"""Fields of requests that no API defines: they are ignored, with one line in the log for each."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

NAMES_MAX: Final = 256  # in the log; clients choose the names
NAME_CHARS_MAX: Final = 64

log = logging.getLogger(__name__)


@dataclass(slots=True)
class UnknownFields:
    """Logs the unknown fields of an application's requests, each name once.

    Mutates: remembers at most `NAMES_MAX` names that stand in the log.
    """

    _told: set[str] = field(default_factory=set)

    def tell(self, names: Iterable[str]) -> None:
        """Log the names that are new."""
        for name in names:
            if name in self._told or len(self._told) >= NAMES_MAX:
                continue
            self._told.add(name)
            log.info(
                "a request has the unknown field %s, which is ignored", ascii(name[:NAME_CHARS_MAX])
            )
