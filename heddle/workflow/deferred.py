"""A value that a call in a workflow function will have."""

import re
import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

_MARK: Final = f"\0{secrets.token_hex(4)}:"  # no text can name a slot by chance or on purpose
_MARKED: Final = re.compile(re.escape(_MARK) + r"(\w+)\0")


class Deferred:
    """Stands for a value before it is there.

    In an f-string it stands for the value in a prompt or a query: nothing waits. Wherever Python
    itself needs the value (`str`, `if`, `for`, `==`, `in`, `len`, `[...]`, or `.value`), the
    function waits for it there. To await one gives the same one.
    """

    __slots__ = ("_wait", "slot")

    def __init__(self, slot: str, wait: Callable[[str], object]) -> None:
        self.slot, self._wait = slot, wait

    @property
    def value(self) -> Any:  # noqa: ANN401 - a text, a list, passages, or what a tool returns
        """The value, waited for."""
        return self._wait(self.slot)

    def __await__(self) -> Generator[None, None, "Deferred"]:
        return self
        yield  # makes it a generator, which is what `await` wants

    def __format__(self, spec: str) -> str:
        if spec:
            return format(self.value, spec)
        return f"{_MARK}{self.slot}\0"

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"Deferred({self.slot!r})"

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

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, Deferred) else other))

    __hash__ = None  # type: ignore[assignment]  # equal values would need equal hashes


def template_text(text: str) -> str:
    """Return a text with deferred values as a template with their slots."""
    pieces = _MARKED.split(text)  # texts and slots in turn
    literals = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces[::2]]
    slots = [f"{{{slot}}}" for slot in pieces[1::2]]
    return "".join(a + b for a, b in zip(literals, [*slots, ""], strict=True))
