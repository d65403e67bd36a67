"""A value that a call in a workflow function will have."""

import re
import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from heddle.core.errors import WorkflowError

# No text can name a slot by chance or on purpose. Any change of case changes the first two letters.
_TOKEN: Final = f"qV{secrets.token_hex(4)}"
_MARK: Final = f"\0{_TOKEN}\0"  # before the slot's name, and behind it
_MARKED: Final = re.compile(rf"{_MARK}(\w+){_MARK}")
# What is left of a mark that was cut or changed: its token, or the first or last characters.
_LEFT: Final = re.compile(rf"{_TOKEN}|{_MARK[:6]}|{_MARK[-6:]}", re.IGNORECASE)


class Deferred:
    """Stands for a value before it is there.

    In an f-string, or joined to a text by `+`, it stands for the value in a prompt or a query:
    nothing waits. Wherever Python itself needs the value (`str`, `if`, `for`, `==`, `<`, `in`,
    `len`, `[...]`, a method such as `.lower()`, or `.value`), the function waits for it there. To
    await one gives the same one. `repr` is the value's once that is there, as an input is from the
    start; before, a prompt that shows it is refused.
    """

    __slots__ = ("_is_there", "_wait", "slot")

    def __init__(self, slot: str, wait: Callable[[str], object], *, is_there: bool = False) -> None:
        self.slot, self._wait, self._is_there = slot, wait, is_there

    @property
    def value(self) -> Any:  # noqa: ANN401 - a text, a list, passages, or what a tool returns
        """The value, waited for."""
        value = self._wait(self.slot)
        self._is_there = True
        return value

    def __await__(self) -> Generator[None, None, "Deferred"]:
        return self
        yield  # makes it a generator, which is what `await` wants

    def __format__(self, spec: str) -> str:
        if spec:
            return format(self.value, spec)
        return f"{_MARK}{self.slot}{_MARK}"

    def __add__(self, other: object) -> Any:  # noqa: ANN401 - as the value has it
        return f"{self}{other}" if isinstance(other, str) else self.value + _value(other)

    def __radd__(self, other: object) -> Any:  # noqa: ANN401 - as the value has it
        return f"{other}{self}" if isinstance(other, str) else _value(other) + self.value

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the value's own
        if name.startswith("_"):  # what Python and libraries look for to learn what this is
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.value, name)

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value) if self._is_there else f"Deferred({self.slot!r}, {_TOKEN})"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __contains__(self, item: object) -> bool:
        return item in self.value

    def __getitem__(self, item: Any) -> Any:  # noqa: ANN401 - as the value has it
        return self.value[item]

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _value(other))

    def __lt__(self, other: object) -> bool:
        return bool(self.value < _value(other))

    def __le__(self, other: object) -> bool:
        return bool(self.value <= _value(other))

    def __gt__(self, other: object) -> bool:
        return bool(self.value > _value(other))

    def __ge__(self, other: object) -> bool:
        return bool(self.value >= _value(other))

    def __hash__(self) -> int:
        # Equal values would need equal hashes.
        raise TypeError(
            "a value that may not be there yet has no hash: use its .value. Calls run side by side "
            "as they are, without asyncio.gather"
        )


def _value(operand: object) -> Any:  # noqa: ANN401 - of any type
    return operand.value if isinstance(operand, Deferred) else operand


def plain_text(text: str, wait: Callable[[str], object]) -> str:
    """Return a text with the values in the place of deferred ones, waiting for each.

    Raises:
        WorkflowError: it was cut or changed where such a value stands.
    """
    pieces = _pieces(text)
    if len(pieces) == 1:
        return text
    values = [wait(slot) for slot in pieces[1::2]]
    shown = ["" if value is None else str(value) for value in values]
    return "".join(a + b for a, b in zip(pieces[::2], [*shown, ""], strict=True))


def template_text(text: str) -> str:
    """Return a text with deferred values as a template with their slots.

    Raises:
        WorkflowError: it was cut or changed where such a value stands.
    """
    pieces = _pieces(text)
    literals = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces[::2]]
    slots = [f"{{{slot}}}" for slot in pieces[1::2]]
    return "".join(a + b for a, b in zip(literals, [*slots, ""], strict=True))


def _pieces(text: str) -> list[str]:
    """Return texts and slots in turn."""
    pieces = _MARKED.split(text)
    if any(map(_LEFT.search, pieces[::2])):
        raise WorkflowError(
            "Python cut or changed an f-string with a value, or wrote a value's repr before it was "
            "there: use .value"
        )
    return pieces
