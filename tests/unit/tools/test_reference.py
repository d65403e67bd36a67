"""The generated pages of docs/reference, and what makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Literal, Unpack

import pytest

import heddle
from heddle.core.tasks import Priority
from tools.reference.docstrings import markdown, parse
from tools.reference.pages import MODULES, PAGES, files
from tools.reference.receipt_page import fields
from tools.reference.signatures import signature_text

ROOT = Path(__file__).parents[3]
DOCSTRING = """Do it.

    In two steps.

    Args:
        one, two: what it is
            done with.
        options:
            deep: an inner name.
            more: another one: with a colon.

    Raises: ValueError: it can't be.

    Example:
        for one in range(2):
            print(one)

        print("done")
    """


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return dict(files())


@pytest.mark.parametrize("path", [*(f"docs/reference/{name}" for name in PAGES), *MODULES])
def test_what_is_generated_is_as_fresh_as_the_code(generated: Mapping[str, str], path: str):
    written = (ROOT / path).read_text(encoding="utf-8")
    assert written == generated[path], "run: make reference"


def test_a_function_has_its_signature_and_words(generated: Mapping[str, str]):
    page = generated["docs/reference/python.md"]
    for name in heddle.__all__:
        exported = getattr(heddle, name)
        if isinstance(exported, FunctionType):
            assert f"### {name}\n\n```python\n{name}(" in page
            assert exported.__doc__.partition("\n")[0] in page


def test_signatures_have_no_modules():
    def one(
        a: "heddle.Server",
        b: Literal["x", "y"] | None = None,
        *,
        c: Callable[[int], None] = lambda _: None,
        d: Mapping[str, tuple[int, ...]] = {},
        e: Priority = Priority.BULK,
        **how: Unpack[heddle.RequestOptions],
    ) -> list[str]: ...

    assert signature_text(one) == (
        "(a: heddle.Server, b: Literal['x', 'y'] | None = None, *, "
        "c: Callable[[int], None] = ..., d: Mapping[str, tuple[int, ...]] = {}, "
        "e: Priority = Priority.BULK, **how: Unpack[RequestOptions]) -> list[str]"
    )


def test_a_docstring_as_markdown():
    assert list(markdown(DOCSTRING)) == [
        "Do it.",
        "",
        "In two steps.",
        "",
        "Args:",
        "",
        "- `one, two`: what it is done with.",
        "- `options`",
        "  - `deep`: an inner name.",
        "  - `more`: another one: with a colon.",
        "",
        "Raises:",
        "",
        "- `ValueError`: it can't be.",
        "",
        "Example:",
        "",
        "```python",
        "for one in range(2):",
        "    print(one)",
        "",
        'print("done")',
        "```",
    ]
    assert parse(DOCSTRING).entries("Args")["two"] == "what it is done with."
    assert parse(DOCSTRING).entries("Raises") == {"ValueError": "it can't be."}
    assert list(markdown(None)) == []


def test_a_field_that_its_docstring_forgets_is_told():
    @dataclass
    class Forgetful:
        """A thing.

        Args:
            one: explained.
        """

        one: int = 1
        two: int = 2

    with pytest.raises(AssertionError, match="Forgetful explains"):
        list(fields(Forgetful))
