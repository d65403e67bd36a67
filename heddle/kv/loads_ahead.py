"""Which chunk KV stays in host memory for prompts that may come, and what is read for them next.

Pure decisions.
"""

from collections import Counter
from collections.abc import Mapping


class LoadsAhead:
    """Entries that are held for prompts to come, by the number of each prompt's loads.

    A prompt to come also holds its chunks that lie in host memory: reading one of them must
    not drive out another. Not thread-safe.

    Args:
        bytes_max: host memory that may be held so; what has no room in it is not held.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_held = 0
        self._sizes: dict[bytes, int] = {}
        self._holders: Counter[bytes] = Counter()  # how many prompts hold an entry
        self._held: dict[int, tuple[bytes, ...]] = {}  # by the number of the loads, oldest first
        self._waiting: dict[int, list[bytes]] = {}  # of these, what is still to be read
        self._begun: dict[int, set[bytes]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._sizes

    @property
    def bytes_held(self) -> int:
        """Host memory that is held, or will be once all is read."""
        return self._bytes_held

    def hold(self, number: int, entries: Mapping[bytes, int], on_disk: frozenset[bytes]) -> None:
        """Hold these entries for a prompt, in place of those that it has held before.

        Args:
            number: of its loads.
            entries: bytes of each, the most wanted first.
            on_disk: of these, those that have to be read.
        """
        begun = self.drop(number)
        held = []
        for key, nbytes in entries.items():
            if key not in self._sizes and self._bytes_held + nbytes > self._bytes_max:
                break
            self._take(key, nbytes)
            held.append(key)
        if held:
            self._held[number] = tuple(held)
            self._waiting[number] = [key for key in held if key in on_disk]
            self._begun[number] = set(begun)

    def drop(self, number: int) -> frozenset[bytes]:
        """Hold nothing for a prompt any more; return what reading has begun for it."""
        for key in self._held.pop(number, ()):
            self._let_go(key)
        self._waiting.pop(number, None)
        return frozenset(self._begun.pop(number, ()))

    def next(self) -> tuple[int, bytes] | None:
        """Return what to read next, and for whom: the oldest prompt that waits; None = nothing.

        Mutates: it waits no more.
        """
        for number, waiting in self._waiting.items():
            if waiting:
                return number, waiting.pop(0)
        return None

    def begin(self, number: int, key: bytes) -> None:
        """Note that an entry is being read for a prompt."""
        self._begun[number].add(key)

    def _take(self, key: bytes, nbytes: int) -> None:
        if key not in self._sizes:
            self._sizes[key] = nbytes
            self._bytes_held += nbytes
        self._holders[key] += 1

    def _let_go(self, key: bytes) -> None:
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self._bytes_held -= self._sizes.pop(key)
