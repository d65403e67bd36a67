"""What a long run has measured so far, on disk: a run that fails at its end loses none of it."""

import json
from collections.abc import Mapping
from pathlib import Path

from heddle.core.cache import cache_directory
from heddle.core.instruction_sets import held


class Journal:
    """A file of JSON lines in the cache, begun anew by each run.

    Args:
        name: of the run; a later run of the same name, held to the same instructions, replaces it.
    """

    def __init__(self, name: str) -> None:
        level = held()
        name = name if level is None else f"{name}-{level.name}"
        self.path: Path = cache_directory("bench", "journals") / f"{name}.jsonl"
        self.path.write_text("", encoding="utf-8")
        print(f"what is measured is noted in {self.path} as it comes", flush=True)

    def note(self, kind: str, fields: Mapping[str, object]) -> None:
        """Add a line."""
        line = json.dumps({"kind": kind, **fields}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
