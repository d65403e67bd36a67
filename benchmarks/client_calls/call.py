"""A call of a client, and the servers that it is made to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

KEY: Final = "any"  # clients insist on one; a server without keys reads none
QUESTION: Final = "Who is the keeper of Rock 3?"
ANSWER: Final = "Clara"
SYSTEM: Final = "Be brief."
TOKENS: Final = 12
LONG: Final = 96  # tokens of noise that hold a stop string


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the calls go.

    Args:
        writing: base of the API of a server with an LLM, such as http://127.0.0.1:8321/v1.
        quoting: of one whose corpus is quoted.
        llm: name of the LLM.
        embedder: name of the embedder.
        dims: length of its vectors.
    """

    writing: str
    quoting: str
    llm: str
    embedder: str
    dims: int


Make = Callable[[Servers], None]
E = TypeVar("E", bound=Exception)


def raised(kind: type[E], make: Callable[[], object]) -> E:
    """Return the error of this kind that a call raises, which it has to."""
    try:
        make()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def stop_in(text: str) -> str:
    """Return two characters that stand behind the first of a text, to be its stop string."""
    pairs = (text[start : start + 2] for start in range(1, len(text) - 1))
    return next(pair for pair in pairs if pair.isascii())


@dataclass(slots=True)
class Client:
    """A client and its calls.

    Args:
        name: of its distribution.
        module: what is imported of it.

    Mutates: `calls`, where one is declared.
    """

    name: str
    module: str
    calls: dict[str, Make] = field(default_factory=dict)

    def call(self, make: Make) -> Make:
        """Declare a call; it raises AssertionError where the reply isn't what is documented."""
        self.calls[make.__name__] = make
        return make
