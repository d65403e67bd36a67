"""Break KV fusion on purpose, and see that a test notices: `python -m tools.mutants`.

Each mutation of `mutations.toml` is applied alone to a copy of the tree; the tests named beside it
run there, and at least one must fail. Exit code 1: a mutation survived, its text is no longer in
the tree, or the tests are red without it. Takes about ten minutes.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("heddle", "tests", "benchmarks", "tools", "pyproject.toml")
TESTS_TIMEOUT_S = 900
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.M)


class MutantError(Exception):
    """A mutation proves nothing: it can't be applied, or its tests can't be run."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Text that is replaced in one file, where it stands exactly once."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return a file's text with the edit made.

        Raises:
            MutantError: the text stands there never, or more than once.
        """
        count = text.count(self.old)
        if count != 1:
            raise MutantError(f"{self.file} holds {count} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One bug: its edits, the number of the property that it breaks, the tests that must see it."""

    name: str
    breaks: int
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Mutation":
        """Return what one entry of the list says."""
        edits = tuple(Edit(**edit) for edit in entry["edits"])
        return cls(entry["name"], entry["breaks"], edits, tuple(entry["tests"]))


def mutations() -> list[Mutation]:
    """Return the list, in its order."""
    text = (ROOT / "tools" / "mutations.toml").read_text(encoding="utf-8")
    return [Mutation.of(entry) for entry in tomllib.loads(text)["mutation"]]


class Copy:
    """A copy of the tree in which one mutation at a time is applied.

    Raises: MutantError: what runs there would import another tree.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=ignored)
            else:
                shutil.copy(ROOT / name, folder / name)
        # Python checks a cached module only against its source's size and mtime in whole seconds.
        own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
        self._environment = {**os.environ, **own}
        code = "import heddle; print(heddle.__file__)"
        imported = self.python("-c", code).stdout.strip()
        if not Path(imported).is_relative_to(folder):
            raise MutantError(f"the copy's tests would import {imported}")

    def failed(self, tests: Sequence[str]) -> str | None:
        """Run tests until one fails; return its name, None where all pass.

        Raises:
            MutantError: they can't be run.
        """
        options = ("-q", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider")
        done = self.python("-m", "pytest", *options, *tests)
        if done.returncode == 0:
            return None
        named = _FAILED.search(done.stdout)
        if done.returncode != 1 or named is None:
            raise MutantError(
                f"the tests can't be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return named[1]

    @contextmanager
    def changed(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Apply some edits for a while.

        Raises:
            MutantError: their text is not there.
        """
        before: dict[Path, str] = {}
        try:
            for edit in edits:
                path = self._folder / edit.file
                text = path.read_text(encoding="utf-8")
                before.setdefault(path, text)
                path.write_text(edit.applied(text), encoding="utf-8")
            yield
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, for at most 15 minutes."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TESTS_TIMEOUT_S,
        )


def caught(copy: Copy, mutation: Mutation) -> str | None:
    """Return the test that sees a mutation, and print what became of it; None: it survived."""
    try:
        with copy.changed(mutation.edits):
            test = copy.failed(mutation.tests)
        problem = "SURVIVED"
    except MutantError as error:
        test, problem = None, f"BROKEN: {error}"
    print(f"{mutation.name} (property {mutation.breaks})\n    {test or problem}", flush=True)
    return test


def main() -> int:
    """Try every mutation, or those whose names hold a word; 1 where one proves nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("word", nargs="?", default="", help="only mutations whose names hold this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    options = parser.parse_args()
    chosen = [mutation for mutation in mutations() if options.word in mutation.name]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        red = copy.failed(list(dict.fromkeys(test for m in chosen for test in m.tests)))
        if red is not None:
            print(f"{red} fails without any mutation: mend that first")
            return 1
        results = {mutation: caught(copy, mutation) for mutation in chosen}
    survivors = [mutation.name for mutation, test in results.items() if test is None]
    print(f"{len(results) - len(survivors)} of {len(results)} mutations were seen by a test")
    if options.json is not None:
        _write(options.json, results)
    return 1 if survivors or not chosen else 0


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Leaves the description's lines as they are."""


def _write(path: Path, results: Mapping[Mutation, str | None]) -> None:
    rows = [
        {"mutation": mutation.name, "breaks": mutation.breaks, "seen_by": test}
        for mutation, test in results.items()
    ]
    seen = sum(test is not None for test in results.values())
    result = {
        "name": "mutants",
        "date": datetime.date.today().isoformat(),
        "rows": rows,
        "headline": {"mutations": len(rows), "seen": seen},
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
