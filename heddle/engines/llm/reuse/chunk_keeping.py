"""Whether the KV of a chunk that a prompt has computed is worth storing. Pure.

Storing copies it, encodes it and writes it to disk: for a small model that is nearly half of the
time that computing it takes. Of the passages of a large corpus most are shown once.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

CHUNKS_KEPT: Final = 4096  # known by their digests; those shown longest ago are forgotten
EVIDENCE: Final = 64.0  # chunks that are stored before their further use is known
FORGETTING: Final = 1 - 1 / 1024  # of counts, for each chunk that is shown for the first time
WRITING: Final = 2.0  # times what the engine's thread takes: the writer's takes as long, by hand
NEWEST: Final = 0.1  # weight of the newest measurement


@dataclass(slots=True)
class ChunkKeeping:
    """Which chunks are stored: those shown before, and new ones while enough of these come again.

    A chunk that was missing counts as new, and as used again whenever it is looked for later,
    whether it was stored or not. So the counts say what storing new ones is worth also while none
    is stored.

    Mutates: `note` counts and remembers, `took` measures.
    """

    _known: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    _new: float = 0.0
    _again: float = 0.0
    _token_s: float = 0.0  # of storing

    def note(self, chunk: bytes, *, is_stored: bool) -> bool:
        """Count a prompt's look for a chunk; return whether it has been missing before.

        Args:
            chunk: its digest, with its tenant.
            is_stored: whether it was found.
        """
        if chunk in self._known:
            self._known.move_to_end(chunk)
            self._again += 1
            return True
        if not is_stored:
            self._known[chunk] = None
            if len(self._known) > CHUNKS_KEPT:
                self._known.popitem(last=False)
            self._new, self._again = self._new * FORGETTING + 1, self._again * FORGETTING
        return False

    def took(self, tokens: int, seconds: float) -> None:
        """Take in how long the engine's thread was busy with storing some tokens."""
        if tokens:
            one_s = seconds / tokens
            self._token_s += NEWEST * (one_s - self._token_s) if self._token_s else one_s

    def pays_for_new(self, saved_token_s: float) -> bool:
        """Whether new chunks are worth storing.

        Args:
            saved_token_s: what each token saves a later prompt [s].
        """
        if self._new < EVIDENCE:
            return True
        return self._again / self._new * saved_token_s >= WRITING * self._token_s
