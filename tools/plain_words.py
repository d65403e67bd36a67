"""Find phrases that are hard to read: `python -m tools.plain_words [--list]`.

Docstrings, comments and documentation name their subject and say one thing. PHRASES are words that
were used instead. `tests/architecture/plain_words.json` says how many each file still holds: a file
may hold fewer, never more, and a new file none. The command writes that list anew once some are
gone; it refuses to write a count that has grown. With `--moves-since COMMIT` a file that git sees
as renamed since the commit takes its count along. `--list` shows each phrase and writes nothing.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
ALLOWED: Final = ROOT / "tests" / "architecture" / "plain_words.json"
FOLDERS: Final = ("heddle", "tools", "benchmarks", "tests", "examples", "docs")
SUFFIXES: Final = (".py", ".c", ".md")
PHRASES: Final = (
    "nobody",
    "whoever",
    "whatever",
    "so many",
    "so long",
    "by then",
    "what it",
    "another way than",
    "(?:is|are|was|were|be|been) told",
    "tells",
)
_PHRASE: Final = re.compile(r"\b(" + "|".join(PHRASES).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
_CODE: Final = re.compile(r"```.*?```|``.*?``|`[^`]*`", re.DOTALL)


class GrownError(Exception):
    """A file holds more of the phrases than it may."""


class Found(NamedTuple):
    """A phrase, and the line at which its paragraph of comment or documentation begins."""

    line: int
    phrase: str


def phrases_in(text: str) -> list[str]:
    """Return the phrases of a text in their order; what stands in backticks is not looked at."""
    found = _PHRASE.findall(_CODE.sub(" . ", text))
    return [" ".join(phrase.split()).lower() for phrase in found]


def found_in(path: Path) -> list[Found]:
    """Return the phrases in a file's prose, in the order of lines.

    Prose is a Python file's docstrings and comments, and the whole of any other file.
    """
    text = path.read_text(encoding="utf-8")
    pieces = _prose(text) if path.suffix == ".py" else _paragraphs(text)
    return sorted(Found(line, phrase) for line, piece in pieces for phrase in phrases_in(piece))


def found_below(root: Path = ROOT) -> dict[str, list[Found]]:
    """Return the phrases of every file that holds some, by its path below `root`."""
    files = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    files += root.glob("*.md")
    prose = sorted(path for path in files if path.suffix in SUFFIXES)
    found = {path.relative_to(root).as_posix(): found_in(path) for path in prose}
    return {file: phrases for file, phrases in found.items() if phrases}


def allowed_counts(path: Path = ALLOWED) -> dict[str, int]:
    """Return how many phrases each file may hold; files that are not named may hold none."""
    counts: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return counts


def grown(
    counts: Mapping[str, int], allowed: Mapping[str, int], moved: Mapping[str, str] | None = None
) -> list[str]:
    """Return a line for every file that holds more than it may.

    Args:
        counts: what each file holds.
        allowed: what each file may hold.
        moved: new path to old path of renamed files, which may hold what the old ones might.
    """
    carried = {new: allowed.get(old, 0) for new, old in (moved or {}).items()}
    before = {file: max(allowed.get(file, 0), carried.get(file, 0)) for file in counts}
    return [
        f"{file}: {count}, at most {before[file]}"
        for file, count in sorted(counts.items())
        if count > before[file]
    ]


def renamed_since(commit: str, root: Path = ROOT) -> dict[str, str]:
    """Return the new path of each file that git sees as renamed since a commit, to its old one."""
    done = subprocess.run(
        ["git", "diff", "--name-status", "--diff-filter=R", "-M40%", commit],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {new: old for _, old, new in rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the list of counts anew; 1, and nothing is written, where a file's count has grown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("--moves-since", metavar="COMMIT", help="renamed files keep their count")
    parser.add_argument("--list", action="store_true", help="show every phrase, write nothing")
    options = parser.parse_args(arguments)
    found = found_below()
    if options.list:
        lines = (
            f"{file}:{at.line}: {at.phrase}" for file, places in found.items() for at in places
        )
        print("\n".join(lines))
        return 0
    counts = {file: len(phrases) for file, phrases in found.items()}
    moved = {} if options.moves_since is None else renamed_since(options.moves_since)
    problems = grown(counts, allowed_counts(), moved)
    if problems:
        print("\n".join(["say these in plain words:", *problems]), file=sys.stderr)
        return 1
    ALLOWED.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(counts.values())} phrases are left, in {len(counts)} files")
    return 0


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Leaves the description's lines as they are."""


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Return a document's paragraphs, each with the number of its first line."""
    line = 1
    for paragraph in text.split("\n\n"):
        yield line, paragraph
        line += paragraph.count("\n") + 2


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Return a Python file's docstrings and comments, each with the number of its first line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
    yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Return a Python file's comments; those on lines that follow each other are one."""
    first, last, words = 0, -1, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if line != last + 1:
            yield first, words
            first, words = line, ""
        last, words = line, f"{words} {token.string.lstrip('# ')}"
    yield first, words


if __name__ == "__main__":
    sys.exit(main())
