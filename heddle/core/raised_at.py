"""Where a user's function raised: the line of its own file, and not of what it calls."""

import traceback
from pathlib import Path
from typing import Final

_HEDDLE: Final = str(Path(__file__).resolve().parents[1])


def raised_at(error: BaseException) -> str:
    """Return the place in the user's file that an error came from, such as "line 3 of mine.py".

    The user's file is the first one outside of Heddle on the way to the error. The line is the
    last one there: what happens in libraries that it calls is of less use to its author.

    Returns: the place; "" = the error came from no file of a user.
    """
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(_HEDDLE)]
    if not outside:
        return ""
    file = outside[0].filename
    line = next(frame.lineno for frame in reversed(outside) if frame.filename == file)
    return f"line {line} of {file}"
