"""Which KV pages each sequence has, and which pages can be found again by their content."""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, ReusedChunk
from heddle.engines.llm.fusion.fusion import Fusion
from heddle.engines.llm.sequence import Sequence
from heddle.kv.chunk_pages import ChunkPages, SharedPages
from heddle.kv.page_ledger import PageLedger
from heddle.kv.prefix_index import PageChain, PrefixIndex
from heddle.kv.rows import Row, SharedSpan


class Shortage(NamedTuple):
    """The pages that a sequence lacks: `own` of its row, and those of `chunks` that have none yet.

    `pages` is how many these are together.
    """

    own: int
    chunks: list[ReusedChunk]
    pages: int


class KvCache:
    """Gives the KV cache's pages to sequences and takes them back.

    A sequence's row has pages of its own and reads those of its stored chunks, which it has in
    common with other rows. Full pages of exact KV are published: a later prompt that begins with
    the same tokens starts from them. It never takes a page from a sequence by itself: the
    scheduler says who loses its pages.

    Args:
        page_count: pages there are.
        page_size: tokens of a page.
        fingerprint: of the model; prompts of another one find nothing.

    Mutates: sequences' rows, and how many of their tokens count as computed and published; the
        ledger and the index are its own.
    """

    def __init__(self, page_count: int, page_size: int, fingerprint: str) -> None:
        self.ledger = PageLedger(page_count, page_size)
        self.index = PrefixIndex(self.ledger)
        self.chunk_pages = ChunkPages(self.ledger)
        self._page_size = page_size
        self._fingerprint = fingerprint

    def new_row(self) -> Row:
        """Return an empty row."""
        return Row(self._page_size)

    def new_chain(self, salt: str) -> PageChain:
        """Return the digest chain of a prompt; only prompts with the same salt share pages."""
        return PageChain(self._fingerprint, salt, self._page_size)

    def cached_tokens(self, sequence: Sequence, token_ids: list[int]) -> int:
        """Return how many of a prompt's first tokens would be read from cached pages now."""
        if not sequence.may_reuse:
            return 0
        full = max(0, len(token_ids) - 1) // self._page_size
        digests = sequence.chain.extend(token_ids, full)
        return self.index.known_count(digests) * self._page_size

    def reuse_prefix(self, sequence: Sequence) -> None:
        """Start from the cached pages of the same prefix; the last token is always computed.

        Of a fused prompt that is the prompt's last one, also where more was written behind it.
        """
        if not sequence.row.is_empty or not sequence.may_reuse:
            return
        fusion = sequence.fusing
        tokens = len(sequence.token_ids) if fusion is None else fusion.layout.tokens
        full = (tokens - 1) // self._page_size
        pages = self.index.match(sequence.chain.extend(sequence.token_ids, full))
        sequence.row.extend(pages)
        sequence.num_computed_tokens = len(pages) * self._page_size
        sequence.num_published_pages = len(pages)
        if sequence.prefill_open and sequence.preemptions == 0:
            sequence.num_reused_tokens = sequence.num_computed_tokens

    def shortage(self, sequence: Sequence) -> Shortage | None:
        """Return the pages that a sequence lacks for all its known tokens; None if it lacks none.

        Mutates: lays out the row of a fused prompt, and holds those pages of its chunks that are
            in the cache.
        """
        row, fusion = sequence.row, sequence.fusing
        tokens = len(sequence.token_ids)
        if fusion is None or not fusion.shares:
            own = self._pages_for(row.own_count(tokens) - row.capacity)
            return Shortage(own, [], own) if own > 0 else None
        absent = self._lay_out(sequence, fusion)
        own_tokens = row.own_count(tokens) + fusion.num_reserved_tokens
        own = max(0, self._pages_for(own_tokens - row.capacity))
        # A prompt may hold the same chunk twice.
        sizes = {chunk.record.key: chunk.record.tokens for chunk in absent}
        pages = own + sum(map(self.chunk_pages.pages_for, sizes.values()))
        return Shortage(own, absent, pages) if pages else None

    def give(self, sequence: Sequence, shortage: Shortage) -> None:
        """Give a sequence the pages that it lacks; the caller has made room for them."""
        self._grow(sequence.row, shortage.own)
        for chunk in shortage.chunks:
            pages = self.chunk_pages.hold(chunk.record)
            pages = pages or self.chunk_pages.add(chunk.record, chunk.block)
            self._share(sequence, chunk, pages, was_there=False)

    def room_behind(self, sequence: Sequence, tokens: int) -> int:
        """Get room for tokens behind those that a sequence has; return for how many there is.

        Takes no page that another sequence holds.
        """
        row = sequence.row
        own = row.own_count(len(sequence.token_ids))
        missing = self._pages_for(own + tokens - row.capacity)
        if missing > 0 and self.ledger.make_room(missing):
            self._grow(row, missing)
        return min(tokens, row.capacity - own)

    def holds_with_chunks(
        self, row: Row, prompt: FusedPrompt, ratio: float, tokens_later: int
    ) -> bool:
        """Whether the whole cache has room for a fused prompt's own pages and those of its chunks.

        What is computed anew takes more room so than on copies; one that would not fit alone would
        wait for ever.

        Args:
            row: of the prompt.
            prompt: as it is about to get its seat.
            ratio: the share of its reused tokens that is computed anew.
            tokens_later: what may still come behind it.
        """
        own = row.own_count(prompt.exact_tokens) + prompt.computed_max(ratio) + tokens_later
        tokens = (own, *(chunk.record.tokens for chunk in prompt.reused.values()))
        held = sum(len(span.pages.pages) for span in row.spans)
        return held + sum(map(self.chunk_pages.pages_for, tokens)) <= self.ledger.page_count

    def filled(self, sequence: Sequence) -> None:
        """Note that the chunks' pages that a sequence reads hold their KV."""
        for span in sequence.row.spans:
            self.chunk_pages.filled(span.pages)

    def publish(self, sequence: Sequence) -> None:
        """Let others find the full pages of what is computed, as far as it is exact."""
        exact = sequence.num_computed_tokens
        if sequence.num_exact_tokens_max is not None:
            exact = min(exact, sequence.num_exact_tokens_max)
        full = exact // self._page_size
        if full <= sequence.num_published_pages or not sequence.may_reuse:
            return
        digests = sequence.chain.extend(sequence.token_ids, full)
        for page, digest in enumerate(digests):
            if page >= sequence.num_published_pages:
                self.index.publish(digest, sequence.row.pages[page])
        sequence.num_published_pages = full

    def rewind(self, sequence: Sequence, length: int) -> None:
        """Forget the KV from position `length` on, or from a little before.

        A page that others read, or may find in the index, is never written again: if the cut
        falls into one, the whole page is dropped and its tokens are computed anew.
        """
        row = sequence.row
        full, rest = divmod(row.own_count(length), self._page_size)
        kept = full
        if rest and full < len(row.pages):
            page = row.pages[full]
            if self.ledger.is_cached(page) or self.ledger.refcount(page) > 1:
                length = full * self._page_size  # such pages hold a row's first positions
            else:
                kept = full + 1
        self._cut(row, length, kept)
        sequence.num_computed_tokens = min(sequence.num_computed_tokens, length)
        sequence.num_published_pages = min(sequence.num_published_pages, full)
        sequence.chain.truncate(full)

    def drop(self, sequence: Sequence) -> None:
        """Take all pages of a sequence; its tokens are to be computed anew."""
        self._cut(sequence.row, 0, 0)
        sequence.num_computed_tokens = 0
        sequence.num_published_pages = 0
        sequence.num_exact_tokens_max = None
        if sequence.fusion is not None:
            sequence.fusion.unseat()

    def check(self, live: Iterable[Sequence]) -> None:
        """Assert that every page has as many holders as live sequences read it."""
        self.ledger.check()
        holders: dict[int, int] = {}
        for sequence in live:
            row = sequence.row
            own = row.own_count(sequence.num_computed_tokens)
            assert own <= row.capacity, "KV without pages"
            for page in chain(row.pages, *(span.pages.pages for span in row.spans)):
                holders[page] = holders.get(page, 0) + 1
        for page in range(self.ledger.page_count):
            assert self.ledger.refcount(page) == holders.get(page, 0), f"page {page} leaked"

    def _lay_out(self, sequence: Sequence, fusion: Fusion) -> list[ReusedChunk]:
        """Say where a fused prompt's positions lie; return the chunks that have no pages yet."""
        row = sequence.row
        if fusion.done == 0:  # a new sweep
            row.lay(fusion.first_fused, fusion.now.positions, fusion.layout.tokens)
        absent = []
        known = {span.start for span in row.spans}
        for chunk in fusion.shared():
            if max(chunk.span.start, fusion.first_fused) in known:
                continue
            pages = self.chunk_pages.hold(chunk.record)
            if pages is None:
                absent.append(chunk)
            else:
                self._share(sequence, chunk, pages, was_there=True)
        return absent

    def _share(
        self, sequence: Sequence, chunk: ReusedChunk, pages: SharedPages, *, was_there: bool
    ) -> None:
        assert sequence.fusion is not None, f"sequence {sequence.id} is not fused"
        if chunk.was_in_pool is None:
            chunk.was_in_pool = was_there
        start, stop = chunk.span.start, chunk.span.stop
        first = max(start, sequence.fusion.first_fused)
        sequence.row.share(SharedSpan(first, stop, start, pages))

    def _pages_for(self, tokens: int) -> int:
        return -(-tokens // self._page_size)

    def _grow(self, row: Row, page_count: int) -> None:
        """Append free pages to a row, next to its last one wherever possible."""
        row.extend(self.ledger.allocate(page_count, row.pages[-1] if row.pages else None))

    def _cut(self, row: Row, length: int, page_count: int) -> None:
        """Forget a row's positions from `length` on and its own pages from `page_count` on."""
        for pages in row.cut(length):
            self.chunk_pages.release(pages)
        self.ledger.release(row.truncate(page_count))
