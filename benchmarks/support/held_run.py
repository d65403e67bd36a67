"""A benchmark's rows held to AVX2, beside those of this machine's own instructions."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heddle.core.errors import InternalError
from heddle.core.instruction_sets import AVX2, held, held_environment, holds_back

ROOT = Path(__file__).parents[2]


def marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that say what this process is held to, "" = nothing."""
    level = held()
    return [{**row, "held": "" if level is None else level.name} for row in rows]


def held_rows(name: str, *, quick: bool, seed: int, options: tuple[str, ...] = ()) -> list[Any]:
    """Run a benchmark again, held to AVX2, in a process of its own; return its rows.

    None where this process is held already, or its CPU has nothing beyond AVX2: its own rows are
    those.

    Args:
        name: as `heddle bench` takes it; the rows it returns are `marked`.
        quick: as this run.
        seed: as this run's.
        options: more of its options.
    Raises:
        InputError: the CPU has no AVX2.
        InternalError: it failed; it said why.
    """
    if held() is not None or not holds_back(AVX2):
        return []
    print(f"\n{name}, held to {AVX2.name}:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "heddle.cli.main", "bench", name]
        command += ["--seed", str(seed), "--json", str(result), *options]
        command += ["--quick"] if quick else []
        done = subprocess.run(command, cwd=ROOT, env=held_environment(AVX2.name), check=False)
        if done.returncode:
            raise InternalError(f"{name} failed where it was held to {AVX2.name}")
        found: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    print()
    return list(found["rows"])
