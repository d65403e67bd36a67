"""Find phrases that are hard to read: `python -m tools.plain_words`.

Docstrings, comments and documentation name their subject and say one thing. PHRASES are words that
were used instead; no file may hold one. The command shows each with its place, and exits with 1
where there are any.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Show every phrase and its place; return 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.parse_args(arguments)
    found = found_below()
    for file, places in found.items():
        for at in places:
            print(f"{file}:{at.line}: {at.phrase}")
    return 1 if found else 0


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
