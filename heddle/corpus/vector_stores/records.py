"""What the tables of files and vector stores hand out, one frozen record each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

Attributes = Mapping[str, str | float | bool]
"""What a client says of a file in a store, by key; searches filter by it."""


class FileState(Enum):
    """How far a file in a store is."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class FailureKind(Enum):
    """Why a file isn't in a store."""

    INVALID_FILE = "invalid_file"  # it can't be read, or has no text
    SERVER_ERROR = "server_error"


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a client has sent; `bytes` is its size, `created_s` when it came [Unix s]."""

    number: int
    id: str
    tenant: str
    name: str
    purpose: str
    bytes: int
    created_s: int


@dataclass(frozen=True, slots=True)
class FileCounts:
    """How many files of a store or of a batch are how far."""

    in_progress: int = 0
    completed: int = 0
    cancelled: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.in_progress + self.completed + self.cancelled + self.failed


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A named set of files; `bytes` is what their texts and vectors take."""

    number: int
    id: str
    tenant: str
    name: str
    metadata: Mapping[str, str]
    created_s: int
    changed_s: int
    bytes: int
    counts: FileCounts


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file in a store.

    `attempts` counts how often its indexing has begun. `failure` says why it failed, in words, and
    `failure_kind` in one; both are empty where it hasn't.
    """

    number: int
    store_id: str
    file_id: str
    tenant: str
    name: str
    created_s: int
    attributes: Attributes
    state: FileState
    failure_kind: str
    failure: str
    attempts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Files that were put into a store by one request."""

    id: str
    store_id: str
    created_s: int
    is_cancelled: bool
    counts: FileCounts
