"""Tests ask public members; how often one still reaches into a private one only goes down."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
REACHES_MAX: Final = 55
# Documented members that begin with an underscore: those of named tuples, and `os._exit`.
DOCUMENTED: Final = {"_asdict", "_exit", "_fields", "_replace"}
BY_NAME: Final = {"setattr", "getattr", "delattr"}  # of Python, and of pytest's monkeypatch
OWN: Final = {"self", "cls"}


def reaches(tree: ast.AST) -> Iterator[str]:
    """Yield each private member that a file takes of something it doesn't define itself."""
    own = set(defined(tree))
    for node in ast.walk(tree):
        for name in named(node):
            is_private = name.startswith("_") and not name.startswith("__")
            if is_private and name not in DOCUMENTED | own:
                yield name


def named(node: ast.AST) -> Iterator[str]:
    """Yield the members that a node names: by a dot, in an import, or as a text."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner)) if owner in OWN:
            return
        case ast.Attribute(attr=name):
            yield name
        case ast.ImportFrom(names=names):
            yield from (alias.name for alias in names)
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called),
            args=[_, ast.Constant(value=str() as name), *_],
        ) if called in BY_NAME:
            yield name


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield what a file's own classes have: methods, and what they set on themselves."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def test_tests_reach_into_no_more_private_members() -> None:
    found = Counter[str]()
    for file in TESTS.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found[file.relative_to(TESTS).as_posix()] = len(list(reaches(tree)))
    told = "\n".join(f"{count:3} {name}" for name, count in found.most_common() if count)
    assert found.total() <= REACHES_MAX, f"ask something public instead:\n{told}"


def test_every_way_to_reach_is_seen() -> None:
    text = """
from module import _function
thing._member; thing.part._deep; getattr(thing, "_named"); monkeypatch.setattr(thing, "_set", 1)
row._replace(x=1); os._exit(0); thing.__class__; thing.member
class Own:
    def __init__(self): self._mine = self._taken
    def _helper(self): pass
own._mine; own._helper()
"""
    assert sorted(reaches(ast.parse(text))) == ["_deep", "_function", "_member", "_named", "_set"]
