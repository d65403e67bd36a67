"""What was committed: what searches may show, must not show, and must find in the end."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """A document that was committed, and its chunks."""

    document: str
    tenant: str
    chunk_ids: tuple[int, ...]


class Ledger:
    """Documents by what was acknowledged. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, Written] = {}
        self._tenant_of: dict[int, str] = {}
        self._deleted: set[int] = set()
        self.writes = self.deletes = 0

    def began(self, written: Written) -> None:
        """Note whose chunks they are, before searches can find them."""
        with self._lock:
            self._tenant_of.update(dict.fromkeys(written.chunk_ids, written.tenant))

    def put(self, written: Written) -> None:
        """Note that a document was committed."""
        with self._lock:
            self._live[written.document] = written
            self.writes += 1

    def deleting(self, written: Written) -> None:
        """Note that a document may be gone from here on."""
        with self._lock:
            del self._live[written.document]

    def deleted(self, written: Written) -> None:
        """Note that its deletion was committed."""
        with self._lock:
            self._deleted.update(written.chunk_ids)
            self.deletes += 1

    def gone(self) -> frozenset[int]:
        """Return the chunks whose deletion was committed by now."""
        with self._lock:
            return frozenset(self._deleted)

    def foreign(self, chunk_ids: list[int], tenant: str) -> int:
        """Return how many of these chunks a tenant may not see."""
        with self._lock:
            owners = [self._tenant_of[one] for one in chunk_ids]
        return sum(owner not in ("", tenant) for owner in owners)

    def live(self) -> list[Written]:
        """Return what must be there."""
        with self._lock:
            return list(self._live.values())
