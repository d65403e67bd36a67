"""What a corpus says of its deleted chunks, asked with rests while it can't be read."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError, StorageError
from heddle.core.ports import Clock

REST_S: Final = 5.0  # after a failure, before the corpus is asked again
REST_TIMES: Final = 9.0  # or this many times what the failure took: the engine has waited for it

T = TypeVar("T")
log = logging.getLogger(__name__)


class DeletionLog(Protocol):
    """What a corpus says of its deleted chunks (heddle.corpus.store.CorpusStore)."""

    @property
    def revision(self) -> int:
        """Grows with every committed change."""
        ...

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the ids of chunks deleted after a revision. Shape: [n] int64."""
        ...

    def has_deleted(self, chunk_ids: Sequence[int]) -> bool:
        """Whether any of these chunks is deleted."""
        ...

    def close(self) -> None:
        """Let go of it; nothing is called afterwards."""
        ...


class RestingLog:
    """A deletion log that isn't asked for a while after it has failed; satisfies `DeletionLog`.

    A database that is away may hold the calling thread up until the connection times out. During
    the rest each call fails at once with the same error. One thread may use it, but for
    `has_told_of`.

    Args:
        asked: the log.
        clock: of the rests.

    Raises, from all but `has_told_of` and `close`: StorageError when the corpus can't be read;
        Unreachable when its database isn't there.
    """

    def __init__(self, asked: DeletionLog, clock: Clock) -> None:
        self._asked = asked
        self._clock = clock
        self._failure: _Failure | None = None  # while the corpus can't be read
        self._told: NDArray[np.int64] = np.empty(0, np.int64)  # all deleted ids, ascending

    @property
    def revision(self) -> int:
        """Grows with every committed change."""
        return self._ask(lambda: self._asked.revision)

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the ids of chunks deleted after a revision. Shape: [n] int64.

        Mutates: `has_told_of` knows them before the caller does.
        """
        deleted = self._ask(lambda: self._asked.deleted(after_revision))
        self._told = np.union1d(self._told, deleted)
        return deleted

    def has_told_of(self, chunk_ids: Sequence[int]) -> bool:
        """Whether `deleted` has returned any of these chunks; asks no corpus, on any thread."""
        told = self._told
        return bool(np.any(told.searchsorted(chunk_ids) < told.searchsorted(chunk_ids, "right")))

    def has_deleted(self, chunk_ids: Sequence[int]) -> bool:
        """Whether any of these chunks is deleted."""
        return self._ask(lambda: self._asked.has_deleted(chunk_ids))

    def close(self) -> None:
        """Let go of the log; nothing is called afterwards."""
        self._asked.close()

    def _ask(self, question: Callable[[], T]) -> T:
        asked_s = self._clock.now_s()
        if self._failure is not None and asked_s < self._failure.rests_until_s:
            raise self._failure.error()
        try:
            answer = question()
        except (ConfigError, StorageError) as error:  # a ConfigError: it refuses this client
            raise self._failed(error, asked_s) from error
        if self._failure is not None:
            log.info("the corpus can be read again: its chunk KV is reused and stored")
            self._failure = None
        return answer

    def _failed(self, error: ConfigError | StorageError, asked_s: float) -> StorageError:
        """Begin a rest and return what to raise; the first of a row of failures is logged."""
        if self._failure is None:
            log.warning("no chunk KV is reused or stored until the corpus is read: %s", error)
        failed_s = self._clock.now_s()
        rest_s = max(REST_S, REST_TIMES * (failed_s - asked_s))
        kind = type(error) if isinstance(error, StorageError) else StorageError
        self._failure = _Failure(kind, str(error), failed_s + rest_s)
        return self._failure.error()


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why the corpus can't be read, and when to ask it again.

    It holds no exception: that one's frames would keep a prompt and its KV.
    """

    kind: type[StorageError]
    message: str
    rests_until_s: float

    def error(self) -> StorageError:
        """Return the error anew."""
        return self.kind(self.message)
