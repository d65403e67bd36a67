"""Measure the package folder by folder: `python tools/house.py [--against COMMIT] [--json FILE]`.

For every folder of heddle/: its Python files side by side, their lines, and its largest class. A
class counts with its bases inside heddle, so that moving methods to a base makes nothing smaller.
"""

import argparse
import ast
import datetime
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = "heddle"
CLASS_LINES_MAX, CLASS_METHODS_MAX = 400, 30

Tree: TypeAlias = Mapping[str, str]
"""A tree of Python files: path below the repository's root, with slashes, to text."""


class HouseError(Exception):
    """A tree can't be read."""


@dataclass(frozen=True, slots=True)
class ClassSize:
    """One class with its bases inside the package.

    `lines` adds up the definitions of the class and its bases. `methods` counts names, so an
    override counts once.
    """

    name: str
    file: str
    lines: int
    methods: int

    @property
    def is_too_large(self) -> bool:
        """Whether it is over one of the two bars."""
        return self.lines > CLASS_LINES_MAX or self.methods > CLASS_METHODS_MAX

    def __str__(self) -> str:
        return f"{self.name} {self.lines}/{self.methods}"


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder: the files side by side in it, without those of folders below it."""

    path: str
    files: int
    lines: int
    largest: ClassSize | None


@dataclass(frozen=True, slots=True)
class House:
    """All folders of the package by path, and its classes over the bars, largest first."""

    folders: tuple[Folder, ...]
    too_large: tuple[ClassSize, ...]

    @classmethod
    def of(cls, tree: Tree) -> "House":
        """Measure a tree.

        Raises:
            HouseError: a file is not Python.
        """
        sizes = class_sizes(tree)
        paths = sorted({_folder(file) for file in tree})
        too_large = sorted((s for s in sizes if s.is_too_large), key=_by_size, reverse=True)
        return cls(tuple(_measured(path, tree, sizes) for path in paths), tuple(too_large))


class Module:
    """The classes and imports of one file, by the names that they have in it."""

    def __init__(self, file: str, text: str) -> None:
        try:
            self._body = ast.parse(text)
        except SyntaxError as error:
            raise HouseError(f"{file} is not Python: {error}") from error
        self.name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.file = file

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Every class of the file by its name; of two with one name, the first."""
        found = [node for node in ast.walk(self._body) if isinstance(node, ast.ClassDef)]
        return {node.name: node for node in reversed(found)}

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """What an imported name means: the module, and the name there ("": the module itself)."""
        named: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self._body):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    named[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    named[alias.asname or alias.name] = (alias.name, "")
        return named


def class_sizes(tree: Tree) -> list[ClassSize]:
    """Return the size of every class of a tree.

    Raises:
        HouseError: a file is not Python.
    """
    modules = {module.name: module for module in (Module(*entry) for entry in tree.items())}
    return [_size(modules, module, name) for module in modules.values() for name in module.classes]


def working_tree(root: Path = ROOT) -> dict[str, str]:
    """Return the package's files as they lie on disk below `root`."""
    files = sorted((root / PACKAGE).rglob("*.py"))
    return {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in files}


def committed_tree(commit: str, root: Path = ROOT) -> dict[str, str]:
    """Return the package's files as they were in one commit of the repository at `root`.

    Raises:
        HouseError: git knows no such commit, or the commit has no package.
    """
    # "--end-of-options" is newer than some git in use; a name that begins with "-" is refused here.
    if commit.startswith("-"):
        raise HouseError(f"{commit!r} is not a commit")
    done = subprocess.run(
        ["git", "archive", "--format=tar", commit, PACKAGE],
        cwd=root,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise HouseError(f"{commit}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        return dict(_python_files(archive))


def table(house: House) -> list[str]:
    """Return the lines that show one tree."""
    rows = [("folder", "files", "lines", "largest class (lines/methods)")]
    rows += [(f.path, str(f.files), str(f.lines), _shown(f.largest)) for f in house.folders]
    return [*_aligned(rows), "", *_over_the_bars(house)]


def comparison(before: House, after: House) -> list[str]:
    """Return the lines that show two trees side by side; "-": the folder is not in that tree."""
    old = {folder.path: folder for folder in before.folders}
    new = {folder.path: folder for folder in after.folders}
    rows: list[tuple[str, ...]] = [
        ("folder", "files", "now", "lines", "now", "largest class (lines/methods)", "now")
    ]
    for path in sorted(old.keys() | new.keys()):
        cells = zip(_cells(old.get(path)), _cells(new.get(path)), strict=True)
        rows.append((path, *(cell for pair in cells for cell in pair)))
    was = [f"before: {line}" for line in _over_the_bars(before)]
    return [*_aligned(rows), "", *was, *(f"now: {line}" for line in _over_the_bars(after))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write where that is asked for; 2 where a tree can't be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("--against", metavar="COMMIT", help="show this commit's tree beside it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    options = parser.parse_args(arguments)
    try:
        after = House.of(working_tree())
        before = None if options.against is None else House.of(committed_tree(options.against))
    except HouseError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(table(after) if before is None else comparison(before, after)))
    if options.json is not None:
        _write(options.json, before, after)
    return 0


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Leaves the description's lines as they are."""


def _python_files(archive: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    for member in archive:
        content = archive.extractfile(member) if member.name.endswith(".py") else None
        if content is not None:
            yield member.name, content.read().decode("utf-8")


def _size(modules: Mapping[str, Module], module: Module, name: str) -> ClassSize:
    """Return a class's size, each of its bases counted once."""
    family: dict[tuple[str, str], ast.ClassDef] = {}
    waiting = [(module, name)]
    while waiting:
        owner, known = waiting.pop()
        if (owner.name, known) in family:
            continue
        definition = family[owner.name, known] = owner.classes[known]
        for base in definition.bases:
            found = _defined(modules, owner, _dotted(base))
            waiting += [] if found is None else [found]
    lines = sum(_length(definition) for definition in family.values())
    methods = {method for definition in family.values() for method in _methods(definition)}
    return ClassSize(name, module.file, lines, len(methods))


def _defined(modules: Mapping[str, Module], module: Module, name: str) -> tuple[Module, str] | None:
    """Return where a name of a module is defined as a class; None: outside the package."""
    seen: set[tuple[str, str]] = set()
    while (module.name, name) not in seen:
        seen.add((module.name, name))
        if name in module.classes:
            return module, name
        first, _, rest = name.partition(".")
        source, inner = module.imported.get(first, ("", ""))
        name = ".".join(part for part in (inner, rest) if part)
        if f"{source}.{inner}" in modules:  # the imported name is a module
            source, name = f"{source}.{inner}", rest
        if source not in modules:
            return None
        module = modules[source]
    return None


def _dotted(base: ast.expr) -> str:
    """Return a base class as it is named, without type arguments; "" for anything else."""
    if isinstance(base, ast.Subscript):
        return _dotted(base.value)
    if isinstance(base, ast.Attribute):
        return f"{_dotted(base.value)}.{base.attr}"
    return base.id if isinstance(base, ast.Name) else ""


def _length(definition: ast.ClassDef) -> int:
    end = definition.end_lineno
    assert end is not None, "ast.parse always gives the last line"
    return end - definition.lineno + 1


def _methods(definition: ast.ClassDef) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in definition.body if isinstance(node, functions)}


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


def _by_size(size: ClassSize) -> tuple[int, int, str]:
    return size.lines, size.methods, size.name


def _measured(path: str, tree: Tree, sizes: Sequence[ClassSize]) -> Folder:
    texts = [text for file, text in tree.items() if _folder(file) == path]
    classes = (size for size in sizes if _folder(size.file) == path)
    lines = sum(len(text.splitlines()) for text in texts)
    return Folder(path, len(texts), lines, max(classes, key=_by_size, default=None))


def _cells(folder: Folder | None) -> tuple[str, str, str]:
    if folder is None:
        return "-", "-", "-"
    return str(folder.files), str(folder.lines), _shown(folder.largest)


def _shown(largest: ClassSize | None) -> str:
    return "-" if largest is None else str(largest)


def _over_the_bars(house: House) -> list[str]:
    bars = f"classes over {CLASS_LINES_MAX} lines or {CLASS_METHODS_MAX} methods"
    return [f"{bars}: {', '.join(str(size) for size in house.too_large) or 'none'}"]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as text: numbers to the right, the rest to the left."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_number = [all(cell.isdigit() or cell == "-" for cell in column[1:]) for column in columns]
    aligns = [str.rjust if right else str.ljust for right in is_number]
    return [
        "  ".join(map(lambda align, cell, width: align(cell, width), aligns, row, widths)).rstrip()
        for row in rows
    ]


def _write(path: Path, before: House | None, after: House) -> None:
    result = {
        "name": "house",
        "date": datetime.date.today().isoformat(),
        "rows": [asdict(folder) for folder in after.folders],
        "too_large": [asdict(size) for size in after.too_large],
        "headline": _headline(after),
    }
    if before is not None:
        result["before"] = {
            "rows": [asdict(folder) for folder in before.folders],
            "too_large": [asdict(size) for size in before.too_large],
            "headline": _headline(before),
        }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _headline(house: House) -> dict[str, int]:
    return {
        "folders": len(house.folders),
        "files": sum(folder.files for folder in house.folders),
        "files_side_by_side_max": max((folder.files for folder in house.folders), default=0),
        "lines": sum(folder.lines for folder in house.folders),
        "classes_too_large": len(house.too_large),
    }


if __name__ == "__main__":
    sys.exit(main())
