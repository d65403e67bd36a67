"""All keys of a server, and what each has left."""

import hmac
from collections.abc import Collection
from dataclasses import dataclass

from heddle.server.keys.api_key import ApiKey, digest_of
from heddle.server.keys.bucket import Bucket


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key and its two limits; its methods are called on the server's event loop."""

    key: ApiKey
    requests: Bucket
    tokens: Bucket

    def admit(self, now_s: float) -> tuple[float, str]:
        """Count a request, or return the time until one is admitted [s] and the limit's name."""
        waits = (
            (self.requests.wait_s(now_s), "requests_per_minute"),
            (self.tokens.wait_s(now_s), "tokens_per_minute"),
        )
        wait_s, limit = max(waits)
        if wait_s > 0:
            return wait_s, limit
        self.requests.take(1)
        return 0.0, ""


class KeyRing:
    """Finds the entry of a key that a client sends.

    Args:
        keys: all of them.
    """

    def __init__(self, keys: Collection[ApiKey]) -> None:
        self._held = tuple(
            HeldKey(key, Bucket(key.requests_per_minute), Bucket(key.tokens_per_minute))
            for key in keys
        )

    def find(self, sent: str) -> HeldKey | None:
        """Return a key's entry; None = it is unknown.

        Each call compares all digests whole: how long it takes says nothing about any of them.
        """
        digest, found = digest_of(sent), None
        for held in self._held:
            if hmac.compare_digest(digest, held.key.digest):
                found = held
        return found
