"""Keys of chunk KV: a chain of digests for each prompt, and in which order to ask for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from heddle.core.kv_reuse import PrimedWith
from heddle.kv.chunk_record import ChunkRecord, ChunkVariant, content_alias, digest_of
from heddle.kv.token_bytes import token_bytes

PUBLIC = ""
NOTHING_REUSED: Final[Mapping[int, ChunkRecord]] = MappingProxyType({})
PATHS_MAX = 64  # paths asked for one chunk: bounds a prompt of n chunks to 64 n digests


class HitKind(Enum):
    """How the KV that was found relates to the prompt that asked."""

    EXACT = "exact"  # computed behind the same prefix and all the same chunks: lossless
    SUFFIX = "suffix"  # behind the prefix and the nearest of the chunks before it
    CANONICAL = "canonical"  # right behind the prefix
    ALIAS = "alias"  # the same chunk, with any other text before it
    MISS = "miss"


class Probe(NamedTuple):
    """One key to ask the directory for, and what a hit under it would mean."""

    key: bytes
    kind: HitKind


def chunk_digest(fingerprint: str, salt: str, token_ids: Sequence[int]) -> bytes:
    """Return the digest that all KV of a chunk shares, under one model and tenant.

    `fingerprint` stands for weights, dtype, RoPE parameters and tokenizer; `salt` separates
    tenants and is set by the server. PUBLIC is the salt of what belongs to none.
    """
    return digest_of(b"chunk", fingerprint.encode(), salt.encode(), token_bytes(token_ids))


class PromptKeys:
    """The keys of the chunks of one prompt [prefix, chunk 0, chunk 1, ...], from the first on.

    A chunk's path key binds model, tenant, the prefix, every chunk from the path's start to the
    chunk itself and the text between them, token by token (model and tenant are in every chunk's
    digest). Chunks are links of their own, so a key depends on no page boundary.

    What a prompt computes belongs to its tenant, for it may have seen all that stands before. Of a
    public chunk a tenant also finds what was computed behind the same prefix alone, or primed with
    other public chunks: that holds nothing of anybody's. Other tenants' chunks can't be named.

    Mutates: `append` adds a chunk, also while decoding (retrieval at decode time).
    Source: FusionRAG §4.1 (Alternative Path).
    Deviates: the content alias binds no prefix. The paper's paths all start with the system
        prompt, which in real traffic may differ in every request, and a chunk first seen behind
        another one is never found by dropping chunks that precede it.
    """

    def __init__(self, fingerprint: str, salt: str, prefix_token_ids: Sequence[int]) -> None:
        self._fingerprint = fingerprint
        self._salt = salt
        self._prefix = digest_of(b"prefix", token_bytes(prefix_token_ids))
        self._chunks: list[bytes] = []
        self._owned: list[bytes] = []  # with the salt of the chunk's owner
        self._primed: list[bytes] = []  # and with its collection: what primed KV is named by
        self._tokens: list[int] = []
        self._sources: list[int | None] = []
        self._paths: list[tuple[bytes, ...]] = []
        self._canonical: list[bytes] = []  # right behind the prefix, with the owner's salt

    def __len__(self) -> int:
        return len(self._chunks)

    def append(
        self,
        token_ids: Sequence[int],
        source: int | None = None,
        *,
        is_public: bool = False,
        collection: str = "",
        between: Sequence[int] = (),
    ) -> int:
        """Add the next chunk of the prompt and return its index.

        `source` is its id in the corpus, None for a text that is in none; a public one is of a
        document of no tenant. Primed KV is kept apart by `collection`, as its neighbours are the
        collection's. `between` are the tokens that stand between it and the chunk before.
        """
        chunk = owned = chunk_digest(self._fingerprint, self._salt, token_ids)
        if is_public and self._salt != PUBLIC:
            owned = chunk_digest(self._fingerprint, PUBLIC, token_ids)
        # One more link on every path, and a new path that starts here. Of too many, the exact one
        # and those that start last are kept.
        before = self._paths[-1] if self._paths else ()
        if between:
            text = token_bytes(between)
            before = tuple(digest_of(b"text", path, text) for path in before)
        before = (*before, self._prefix)
        paths = [digest_of(b"path", path, chunk) for path in before]
        if len(paths) > PATHS_MAX:
            del paths[1]
        self._chunks.append(chunk)
        self._owned.append(owned)
        self._primed.append(_of_collection(owned, collection))
        self._tokens.append(len(token_ids))
        self._sources.append(source)
        self._paths.append(tuple(paths))
        is_own = owned == chunk
        self._canonical.append(paths[-1] if is_own else digest_of(b"path", self._prefix, owned))
        return len(self._chunks) - 1

    def probes(self, index: int, *, primed: PrimedWith | None = None) -> Iterator[Probe]:
        """Yield the keys of a chunk, best first: the longest path, then ever shorter ones.

        With `primed`, KV primed with such neighbours comes before any raw KV that isn't exact; that
        of other neighbours has keys of its own. The first chunk of a prompt is best asked for raw:
        right behind the prefix that is lossless.
        """
        *longer, shortest = self._paths[index]
        behind_prefix = dict.fromkeys((shortest, self._canonical[index]))
        if index == 0:
            yield from (Probe(key, HitKind.EXACT) for key in behind_prefix)
        else:
            yield Probe(longer[0], HitKind.EXACT)
        if primed is not None:
            variant = ChunkVariant.primed_with(primed)
            yield Probe(self._primed_key(index, variant), HitKind.CANONICAL)
            yield Probe(content_alias(self._primed[index], variant), HitKind.ALIAS)
        for path in longer[1:]:
            yield Probe(path, HitKind.SUFFIX)
        if index > 0:
            yield from (Probe(key, HitKind.CANONICAL) for key in behind_prefix)
        yield Probe(content_alias(self._chunks[index], ChunkVariant.RAW), HitKind.ALIAS)

    def canonical_probe(self, index: int) -> Probe:
        """Return the key of raw KV that has seen the prefix alone.

        Primed KV is made of that: any other has seen somebody's prompt, and would hand it on.
        """
        return Probe(self._canonical[index], HitKind.CANONICAL)

    @property
    def chunks(self) -> tuple[bytes, ...]:
        """The chunks' digests, with their owners' salts: what contexts name them by."""
        return tuple(self._owned)

    @property
    def own_chunks(self) -> tuple[bytes, ...]:
        """The chunks' digests, with the salt of the prompt, which are those that it stores."""
        return tuple(self._chunks)

    def exact_record(self, index: int, base: int) -> ChunkRecord:
        """Name raw KV computed by full attention over the prompt as it stands up to this chunk."""
        return self._record(index, self._paths[index][0], base, self._chunks, saw_others=True)

    def canonical_record(self, index: int, base: int) -> ChunkRecord:
        """Name raw KV computed right behind the prefix."""
        return self._record(index, self._canonical[index], base, self._owned, saw_others=False)

    def approximate_record(
        self, index: int, base: int, reused: Mapping[int, ChunkRecord] = NOTHING_REUSED
    ) -> ChunkRecord:
        """Name raw KV that attended reused KV of the chunks before: found by its alias only.

        Under a path it would pass for lossless, and the next prompt would build on it. What the
        reused KV has seen, such as a primed chunk's neighbours, it has seen as well.

        Args:
            index: of the chunk.
            base: position of its first key [tokens].
            reused: the entries that the prompt reuses, by their chunks' indices.
        """
        record = self._record(index, self._chunks[index], base, self._chunks, saw_others=True)
        before = (one.sources for place, one in reused.items() if place < index)
        sources = dict.fromkeys((*record.sources, *chain.from_iterable(before)))
        return replace(record, sources=tuple(sources))

    def primed_record(
        self, index: int, base: int, neighbours: PrimedWith = PrimedWith.PRECEDING
    ) -> ChunkRecord:
        """Name primed KV: the chunks before this one are the neighbours it has attended."""
        variant = ChunkVariant.primed_with(neighbours)
        key = self._primed_key(index, variant)
        return self._record(index, key, base, self._primed, variant, saw_others=True)

    def _primed_key(self, index: int, variant: ChunkVariant) -> bytes:
        behind_prefix = digest_of(b"path", self._prefix, self._primed[index])
        return digest_of(variant.value.encode() + b" path", behind_prefix)

    def _record(
        self,
        index: int,
        key: bytes,
        base: int,
        digests: Sequence[bytes],
        variant: ChunkVariant = ChunkVariant.RAW,
        *,
        saw_others: bool,
    ) -> ChunkRecord:
        start = 0 if saw_others else index
        sources = (self._sources[index], *self._sources[start:index])
        return ChunkRecord(
            key,
            digests[index],
            self._tokens[index],
            base,
            variant,
            context=tuple(self._owned[start:index]),
            sources=tuple(source for source in dict.fromkeys(sources) if source is not None),
        )


def _of_collection(owned: bytes, collection: str) -> bytes:
    """Return a chunk's digest in a collection; the default one has always gone without a name."""
    return digest_of(b"collection", owned, collection.encode()) if collection else owned
