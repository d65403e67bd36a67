"""The gain of reading a prompt's stored chunks before the prompt is there."""

from dataclasses import dataclass

from heddle.costs.load_choice import choose_loads


@dataclass(frozen=True, slots=True)
class ChunkReads:
    """The chunks of a prompt as the store and the engine predict them.

    Args:
        chunks: how many there are; all are taken to lie on disk alone.
        read_s: how long one takes to read [s]; they are read one after the other.
        prefill_s: how much longer the prompt takes to compute for each that isn't read [s].
    """

    chunks: int
    read_s: float
    prefill_s: float

    def saved_s(self, rest_s: float, busy_s: float) -> float:
        """Return how much sooner the prompt is in where reading begins now, not with it [s].

        Args:
            rest_s: when the prompt comes, from now [s].
            busy_s: how long the engine is busy with others from then on [s].
        """
        ends_s = [self.read_s * (n + 1) for n in range(self.chunks)]
        ahead_s = [max(0.0, end_s - rest_s) for end_s in ends_s]
        prefills_s = [self.prefill_s] * self.chunks
        later = choose_loads(ends_s, prefills_s, busy_s)
        return later.predicted_s - choose_loads(ahead_s, prefills_s, busy_s).predicted_s
