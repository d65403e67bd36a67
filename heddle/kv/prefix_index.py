"""Exact prefix cache: full pages found again by the tokens that lead to them."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile

from heddle.kv.page_ledger import PageLedger
from heddle.kv.token_bytes import token_bytes


class PageChain:
    """The chain of page digests of one prompt: each names its page and all before it.

    digest(i) = sha256(digest(i - 1) + tokens of page i), and digest(-1) binds the model and the
    cache salt, which keeps tenants apart: a hit means the same model, salt and tokens from
    position 0 on.
    """

    def __init__(self, fingerprint: str, salt: str, page_size: int) -> None:
        self._page_size = page_size
        self._root = hashlib.sha256(
            f"{len(fingerprint)}:{fingerprint}{len(salt)}:{salt}".encode()
        ).digest()
        self._digests: list[bytes] = []

    def extend(self, token_ids: Sequence[int], page_count: int) -> Iterator[bytes]:
        """Yield the digests of the first `page_count` pages of these tokens, each when asked for.

        Mutates: keeps them; the tokens of known pages must not have changed (see `truncate`).
        """
        for page in range(page_count):
            if page == len(self._digests):
                start = page * self._page_size
                tokens = token_ids[start : start + self._page_size]
                assert len(tokens) == self._page_size, "only full pages have a digest"
                before = self._digests[-1] if self._digests else self._root
                self._digests.append(hashlib.sha256(before + token_bytes(tokens)).digest())
            yield self._digests[page]

    def truncate(self, page_count: int) -> None:
        """Forget the digests from page `page_count` on."""
        del self._digests[page_count:]


class PrefixIndex:
    """Finds pages by digest. Only exact KV is ever published.

    (docs/design/architecture.md#exactness)

    Mutates: marks published pages in the ledger; what is evicted there is not found any more.
    """

    def __init__(self, ledger: PageLedger) -> None:
        self._ledger = ledger
        self._page_of: dict[bytes, int] = {}
        self._digest_of: dict[int, bytes] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._page_of)

    def match(self, digests: Iterable[bytes]) -> list[int]:
        """Return the pages of the longest known prefix, each with one more holder.

        Takes no digest after the first that is unknown: behind chunks from elsewhere most are.
        """
        pages: list[int] = []
        for digest in digests:
            page = self._page_of.get(digest)
            if page is None:
                break
            pages.append(page)
        self._ledger.share(pages)
        return pages

    def known_count(self, digests: Iterable[bytes]) -> int:
        """Return the length of the longest known prefix [pages]; none of them gets a holder."""
        return sum(1 for _ in takewhile(self._page_of.__contains__, digests))

    def publish(self, digest: bytes, page: int) -> None:
        """Make a held, full, exact page findable; the first page of a digest stays."""
        if digest in self._page_of or page in self._digest_of:
            return
        self._page_of[digest] = page
        self._digest_of[page] = digest
        self._ledger.mark_cached(page, partial(self._evicted, page))

    def _evicted(self, page: int) -> None:
        del self._page_of[self._digest_of.pop(page)]
        self.evictions += 1
