"""A request's object store: every key is written once. (Teola §5.1)"""

from dataclasses import dataclass, field

from heddle.core.errors import InternalError


@dataclass(slots=True)
class ObjectStore:
    """Write-once values by key.

    Mutates: `put` adds a key; nothing is ever changed or removed before the request ends.
    """

    _values: dict[str, object] = field(default_factory=dict)

    def put(self, key: str, value: object) -> None:
        """Write a key once."""
        if key in self._values:
            raise InternalError(f"key {key!r} was written before")
        self._values[key] = value

    def get(self, key: str) -> object:
        """Return a value that was written."""
        if key not in self._values:
            raise InternalError(f"key {key!r} is read before it is written")
        return self._values[key]

    def with_value(self, key: str, value: object) -> "ObjectStore":
        """Return what this store would be if a key were written by now."""
        store = ObjectStore(dict(self._values))
        store.put(key, value)
        return store

    def __contains__(self, key: str) -> bool:
        return key in self._values
