"""What the engine asks of a grammar, and of what makes one for each generation."""

from collections.abc import Callable, Sequence
from typing import Protocol

from heddle.core.prompts.constraint import Constraint
from heddle.engines.llm.step_batch import TokenMask


class Grammar(Protocol):
    """How far one generation is in what its text has to be.

    With a `problem` it forces, masks and takes tokens without effect, and raises nothing.
    """

    @property
    def is_ready(self) -> bool:
        """Whether it is compiled and stands behind the tokens that were written before."""
        ...

    @property
    def problem(self) -> str:
        """Why it can't go on; empty while it can."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the text is whole, and nothing but its end may follow."""
        ...

    def write(self, token: int) -> None:
        """Note the next token of the text."""
        ...

    def forced(self) -> tuple[int, ...]:
        """Return tokens of the text that has to come next; () where there is a choice."""
        ...

    def masks(self, drafted: Sequence[int]) -> tuple[TokenMask, ...]:
        """Begin to compute the mask of the next token, and of the one behind each drafted token.

        Behind a drafted token that may not come, nothing may.
        """
        ...


class Grammars(Protocol):
    """Makes the grammar of each generation of a lane; compiles each constraint once."""

    def begin(self, constraint: Constraint, written: Sequence[int]) -> Grammar:
        """Return a grammar that stands behind the tokens written, once it is ready."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever a grammar has become ready."""
        ...

    def close(self) -> None:
        """End its threads."""
        ...
