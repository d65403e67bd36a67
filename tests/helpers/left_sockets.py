"""The sockets that other people's clients leave to the collector."""

import gc
import warnings
from pathlib import PurePosixPath
from typing import Final

# Files whose tests make such clients.
OTHERS: Final = frozenset(
    f"test_{name}.py" for name in ("adapters", "clients", "examples", "haystack", "llama_index")
)


def collect_left_sockets(nodeid: str) -> None:
    """Collect them behind a test of such a file, so that their warnings meet no test behind it.

    For a hook that runs when nothing holds what the test has used.
    """
    if PurePosixPath(nodeid.partition("::")[0]).name not in OTHERS:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
