"""The engine's side of constrained decoding: who waits for a grammar, and who has one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.core.payloads import Sampling
from heddle.engines.llm.grammar import Grammars
from heddle.engines.llm.sequence import Sequence


@dataclass(slots=True)
class Constraining:
    """Gives decodes their grammars. A sequence has no seat while its grammar is compiled.

    Args:
        grammars: makes them; None = this engine constrains nothing.
        reason: why not.

    Mutates: `begin` notes who waits, `arrived` forgets them.
    """

    grammars: Grammars | None = None
    reason: str = "this engine constrains no text"
    _waiting: list[Sequence] = field(default_factory=list)

    def refusal(self, sampling: Sampling) -> str | None:
        """Return why a decode can't be constrained as it asks, or None."""
        if sampling.constraint is None:
            return None
        if self.grammars is None:
            return f"constraint: {self.reason}"
        if sampling.ignore_eos:
            return "constraint: a text that ignores its end can't be constrained; drop ignore_eos"
        return None

    def begin(self, sequence: Sequence) -> None:
        """Give a sequence's decode the grammar of its constraint, if it has one.

        Mutates: the decode, and the sequence while its grammar isn't ready, or until `arrived`
            hands out one that could not be compiled.
        """
        decode = sequence.decode
        assert decode is not None, f"sequence {sequence.id} has no decode"
        constraint = decode.sampling.constraint
        if constraint is None or self.grammars is None:
            return
        decode.grammar = self.grammars.begin(constraint, tuple(decode.output_ids))
        if not decode.grammar.is_ready or decode.problem:
            sequence.awaits_grammar = True
            self._waiting.append(sequence)

    @property
    def has_arrivals(self) -> bool:
        """Whether a grammar has become ready that a sequence waits for."""
        return any(_is_due(sequence) for sequence in self._waiting)

    def arrived(self) -> list[Sequence]:
        """Return and forget the sequences whose grammar is ready, or no longer wanted.

        The caller fails a decode that has a `problem`: its constraint could not be compiled.
        """
        due = [sequence for sequence in self._waiting if _is_due(sequence)]
        self._waiting = [sequence for sequence in self._waiting if sequence not in due]
        for sequence in due:
            sequence.awaits_grammar = False
        return due

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever a grammar has become ready."""
        if self.grammars is not None:
            self.grammars.subscribe(wake)

    def close(self) -> None:
        """End the threads of the grammars."""
        if self.grammars is not None:
            self.grammars.close()


def _is_due(sequence: Sequence) -> bool:
    decode = sequence.decode
    return decode is None or decode.grammar is None or decode.grammar.is_ready
