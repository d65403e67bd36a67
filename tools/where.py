"""Find where something is done, by words: `python -m tools.where evict a page of the KV cache`.

Files of the package are ranked by the words in the names, docstrings, comments and code of their
definitions, and by what the documentation says of them. Each is printed with its best definitions
and their lines.
"""

import argparse
import ast
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = "heddle"
DOCUMENTATION: Final = "docs"
C_SUFFIXES: Final = (".c", ".h")
FILES_SHOWN: Final = 10
PLACES_SHOWN: Final = 3  # of a file
SUMMARY_CHARS_MAX: Final = 90
RANKED_MAX: Final = 300  # definitions that files are ranked by
NEXT_SHARE: Final = 0.3  # of a file's next best definition, beside the one before it

_TABLE: Final = """
CREATE VIRTUAL TABLE said USING fts5(
    words, file UNINDEXED, position UNINDEXED, tokenize = 'porter unicode61'
)
"""
_RANKED: Final = """
SELECT file, position, -bm25(said) FROM said WHERE said MATCH ? ORDER BY bm25(said) LIMIT ?
"""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
_PARAGRAPH: Final = re.compile(r"\n\n|\n(?=\|)|\n(?=- )")
_FILE: Final = re.compile(rf"`(?:{PACKAGE}/)?([\w/]+\.(?:py|c|h))\b")
_RAISES: Final = re.compile(r"^Raises:(?s:.*?)(?=\n\n|\Z)", re.MULTILINE)
_COMMENT_LINE: Final = re.compile(r"#[ :]")
_COMMENT_BEHIND: Final = re.compile(r"\s#:? (.*)$")
_C_COMMENT: Final = re.compile(r"^(?://|/\*| \*/?)|\*/$", re.MULTILINE)
_C_FUNCTION: Final = re.compile(
    r"^(?P<comment>(?:(?://.*\n)+|/\*(?:[^*]|\*(?!/))*\*/\n)?)"
    r"(?:[\w*]+[ \n]+\**)+(?P<name>\w+)\([^;{}]*\)\s*\{\n(?P<body>(?:(?!\}).*\n)*)",
    re.MULTILINE,
)
_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Said(NamedTuple):
    """What is said of a file at one place: in a definition, or on a page of the documentation.

    Attributes:
        file: the file that it is said of, below the repository's root.
        line: the line of that file at which the definition begins; 0 = on a page.
        name: of the definition, with the classes around it; of the page, its path.
        prose: the docstring, or the comment of a constant, or the paragraph.
        code: of a function, with its comments.
    """

    file: str
    line: int
    name: str
    prose: str
    code: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph of the prose, in one line that may be cut."""
        return _one_line(self.prose.split("\n\n")[0])

    @property
    def refusals(self) -> str:
        """What the prose says that it raises, in one line that may be cut; "" = nothing."""
        found = _RAISES.search(self.prose)
        return "" if found is None else _one_line(found[0])

    @property
    def place(self) -> str:
        """File and line, or the page alone."""
        return f"{self.file}:{self.line}" if self.line else self.name


def said_below(root: Path = ROOT) -> list[Said]:
    """Return what is said of all files of the package."""
    found: list[Said] = []
    for path in sorted((root / PACKAGE).rglob("*")):
        file = path.relative_to(root).as_posix()
        if path.suffix == ".py":
            found += in_python(file, path.read_text(encoding="utf-8"))
        elif path.suffix in C_SUFFIXES:
            found += in_c(file, path.read_text(encoding="utf-8"))
    files = sorted({said.file for said in found})
    for path in sorted((root / DOCUMENTATION).rglob("*.md")):
        page = path.relative_to(root).as_posix()
        found += on_page(page, path.read_text(encoding="utf-8"), files)
    return found


def in_python(file: str, text: str) -> Iterator[Said]:
    """Yield the definitions of a Python file: itself, its constants, classes and functions."""
    module = ast.parse(text)
    yield Said(file, 1, Path(file).stem, ast.get_docstring(module) or "")
    lines = text.splitlines()
    for node in module.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield Said(file, node.lineno, name, _comment_at(lines, node.lineno))
    yield from _inside(file, lines, module, "")


def in_c(file: str, text: str) -> Iterator[Said]:
    """Yield the functions of a C file, each with the comment before it."""
    for found in _C_FUNCTION.finditer(text):
        line = text.count("\n", 0, found.start("name")) + 1
        comment = _C_COMMENT.sub("", found["comment"]).strip()
        yield Said(file, line, found["name"], comment, found["body"])


def on_page(page: str, text: str, files: Sequence[str]) -> Iterator[Said]:
    """Yield the paragraphs, items and rows of a page, for each file that one of them names."""
    for paragraph in _PARAGRAPH.split(text):
        for named in dict.fromkeys(_FILE.findall(paragraph)):
            meant = [file for file in files if f"/{file}".endswith(f"/{named}")]
            if len(meant) == 1:
                yield Said(meant[0], 0, page, paragraph.strip("|- \n"))


def where(words: str, said: Sequence[Said]) -> list[list[Said]]:
    """Return what fits the words best: file by file, and the best of each, best first."""
    asked = " OR ".join(f'"{word}"' for word in _WORD.findall(_split(words)))
    files: dict[str, list[tuple[float, Said]]] = {}
    about = {one.file: one.prose for one in said if one.line == 1}
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(_TABLE)
        rows = ((_indexed(one, about), one.file, position) for position, one in enumerate(said))
        index.executemany("INSERT INTO said VALUES (?, ?, ?)", rows)
        for file, position, score in index.execute(_RANKED, (asked or '""', RANKED_MAX)):
            files.setdefault(file, []).append((score, said[position]))
    ranked = sorted(files.values(), key=lambda found: -_together([score for score, _ in found]))
    return [[one for _, one in found[:PLACES_SHOWN]] for found in ranked[:FILES_SHOWN]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what fits the words best; 1 where nothing has one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="+", metavar="WORD")
    options = parser.parse_args(arguments)
    found = where(" ".join(options.words), said_below())
    for file in found:
        print(file[0].file)
        for one in file:
            print(f"  {one.place}  {one.name if one.line else ''}\n      {one.summary}")
            if one.refusals:
                print(f"      {one.refusals}")
    return 0 if found else 1


def _inside(
    file: str, lines: list[str], parent: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[Said]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, _Definition):
            name, prose = f"{prefix}{node.name}", ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield Said(file, node.lineno, name, prose)
                yield from _inside(file, lines, node, f"{name}.")
            else:
                if node.name == "__init__":
                    prose = prose or ast.get_docstring(parent) or ""
                code = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                yield Said(file, node.lineno, name, prose, code)


def _comment_at(lines: Sequence[str], number: int) -> str:
    """Return the comment above a constant, and the one behind it."""
    above = list(takewhile(_COMMENT_LINE.match, reversed(lines[: number - 1])))
    behind = _COMMENT_BEHIND.search(lines[number - 1])
    parts = [line.lstrip("# ") for line in reversed(above)]
    return " ".join([*parts, behind[1]] if behind else parts)


def _indexed(one: Said, about: dict[str, str]) -> str:
    """Return the words that a place is found by: its file says what a definition is part of."""
    return _split(f"{one.file} {one.name} {about.get(one.file, '')} {one.prose} {one.code}")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SUMMARY_CHARS_MAX else f"{line[:SUMMARY_CHARS_MAX]} ..."


def _split(text: str) -> str:
    """Return a text with names such as `PageLedger` as words; the index splits the others."""
    return _HUMP.sub(" ", text)


def _together(scores: Sequence[float]) -> float:
    """Return a file's score by those of its definitions, the best first."""
    return sum(score * NEXT_SHARE**position for position, score in enumerate(scores))


if __name__ == "__main__":
    sys.exit(main())
