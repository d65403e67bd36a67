"""A note to users of a system that Heddle is not tested on: shown once, and never in the way."""

import sys
from typing import Final

from heddle import __version__
from heddle.core.cache import cache_root
from heddle.hosts.tested_systems import TESTED, SystemFacts, untested

SHOWN: Final = "system-notes"


def note_untested_system() -> None:
    """Say on stderr what of this system is untested, at the first command of a version.

    `heddle doctor` says it every time. Mutates: leaves a mark in the cache; where that can't be
    written, the note comes again.
    """
    notes = untested(SystemFacts.read())
    if not notes:
        return
    mark = cache_root() / SHOWN / f"{__version__}-{sys.version_info.major}.{sys.version_info.minor}"
    if mark.exists():
        return
    print("\n".join(lines(notes)), file=sys.stderr)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:
        return  # a note too many does no harm


def lines(notes: tuple[str, ...]) -> list[str]:
    """Return the lines of the note."""
    head = f"note: Heddle is tested on {TESTED}. Not tested, and it may fail:"
    return [head, *(f"  {note}" for note in notes)]
