"""Do what a new user does, and write down the cost: `python -m tools.first_evening FOLDER...`.

An empty environment gets torch and the wheels of `dist/`, as docs/start/install.md says. The
folders are indexed, and each question is asked by `heddle ask`. Every command runs as a user types
it, in a folder with a copy of the manuals and an empty cache. For each, its exit code, CPU seconds
(of it and of the processes that it waited for), seconds and words are printed as Markdown.
docs/results/first-evening.md has the stumbles that a reader found in them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.cli.main import COMMANDS
from tools.dist import ROOT, TORCH

OPTIONAL: Final = ("heddle_reader",)
LINES_SHOWN: Final = 14
CORPUS: Final = "corpus"


@dataclass(frozen=True, slots=True)
class Tried:
    """A command that was run, with its output and its cost."""

    command: str
    code: int
    cpu_s: float
    wall_s: float
    said: str

    @property
    def row(self) -> str:
        """A line of the table."""
        return f"| `{self.command}` | {self.code} | {self.cpu_s:.1f} | {self.wall_s:.1f} |"

    @property
    def excerpt(self) -> str:
        """The command and the end of its output, as Markdown shows a terminal."""
        lines = self.said.strip().splitlines()
        cut = ["..."] if len(lines) > LINES_SHOWN else []
        shown = [*cut, *lines[-LINES_SHOWN:]]
        return "\n".join(["```", f"$ {self.command}", *shown, "```"])


def evening(
    folders: Sequence[Path],
    questions: Sequence[str],
    wheels: Sequence[Path],
    torch: str,
    home: Path,
) -> Iterator[Tried]:
    """Yield each command of the evening as it ends. Mutates: fills `home`."""
    venv.create(home / "env", with_pip=True)
    programs = home / "env" / "bin"
    names = [folder.name for folder in folders]
    for folder in folders:
        shutil.copytree(folder, home / folder.name)
    yield tried(programs, home, "pip", "install", "--quiet", torch)
    yield tried(programs, home, "pip", "install", "--quiet", *map(str, wheels))
    yield tried(programs, home, "heddle", "doctor")
    yield tried(programs, home, "heddle", "index", *names, "--into", CORPUS)
    yield tried(programs, home, "heddle", "index", *names, "--into", CORPUS)
    for question in questions:
        if "search" in COMMANDS and question == questions[0]:
            yield tried(programs, home, "heddle", "search", CORPUS, question)
        yield tried(programs, home, "heddle", "ask", CORPUS, question)


def tried(programs: Path, home: Path, *words: str) -> Tried:
    """Run a program of the environment in the user's folder.

    Its stdout and stderr are kept together, in their order.
    """
    begun_s = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            (str(programs / words[0]), *words[1:]),
            cwd=home,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode("utf-8", errors="replace")
    typed = " ".join(f'"{word}"' if " " in word else Path(word).name for word in words)
    wall_s = time.perf_counter() - begun_s
    return Tried(typed, process.returncode, usage.ru_utime + usage.ru_stime, wall_s, said)


def environment(home: Path) -> dict[str, str]:
    """Return this process's environment without its Python path, and with an empty cache."""
    kept = {name: v for name, v in os.environ.items() if name not in ("PYTHONPATH", "HEDDLE_DATA")}
    return {**kept, "HEDDLE_CACHE": str(home / "cache")}


def main() -> int:
    """Try the commands and print the page; return 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AS_WRITTEN)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with manuals")
    parser.add_argument("--questions", type=Path, required=True, help="a file, one question a line")
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist", help="what `make dist` made")
    parser.add_argument("--torch", default=TORCH, help=f"what is installed first; default: {TORCH}")
    options = parser.parse_args()
    questions = [q for q in options.questions.read_text(encoding="utf-8").splitlines() if q.strip()]
    wheels = [p for p in sorted(options.wheels.glob("*.whl")) if not p.name.startswith(OPTIONAL)]
    if not wheels:
        print(f"error: no wheels in {options.wheels}: run `make dist`", file=sys.stderr)
        return 1
    folders = [folder.resolve() for folder in options.folders]
    done = []
    with tempfile.TemporaryDirectory() as home:
        for one in evening(folders, questions, wheels, options.torch, Path(home)):
            print(one.row, file=sys.stderr, flush=True)
            done.append(one)
    header = ("| command | exit code | CPU s | s |", "|---|---|---|---|")
    print("\n".join([*header, *(one.row for one in done), ""]))
    print("\n\n".join(one.excerpt for one in done))
    return 1 if any(one.code for one in done) else 0


_AS_WRITTEN: Final = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    sys.exit(main())
