"""What a command-line tool of Python says of itself when it is asked for help."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from heddle.evals.manuals.page import ManualPage

SECONDS_MAX: Final = 60.0
# The width and the colours of help follow the terminal: the page must not.
_PLAIN: Final = {
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "PYTHON_COLORS": "0",
    "TERM": "dumb",
    "PYTHONHASHSEED": "0",  # pip's help shows a set
    "PIP_CONFIG_FILE": os.devnull,  # and, as its defaults, what a user has set
}
_SETTINGS: Final = "PIP_"


def help_page(words: Sequence[str]) -> ManualPage | None:
    """Return the page of `python WORDS`, such as ("-m", "zipfile", "--help"); None where it fails.

    A tool that takes longer than SECONDS_MAX counts as failed.
    """
    try:
        done = subprocess.run(
            [sys.executable, *words],
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    said = done.stdout.replace(sys.executable, "python")
    command = " ".join(("python", *(word for word in words if word not in ("--help", "-h"))))
    name = "-".join(word.strip("-") for word in words if word not in ("-m", "-h", "--help"))
    return ManualPage(f"command-{name or 'python'}.txt", f"{command}\n\n{said.strip()}\n")


def _environment() -> dict[str, str]:
    kept = {name: v for name, v in os.environ.items() if not name.startswith(_SETTINGS)}
    return {**kept, **_PLAIN}
