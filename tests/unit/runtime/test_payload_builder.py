"""What an engine gets to prime a chunk: in which order its neighbours stand before it."""

from heddle.core.kv_reuse import FULL_ATTENTION
from heddle.core.passages import Passage
from heddle.core.payloads import PrimePayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import SearchScope
from heddle.graph.primitive import PrimeConfig, Primitive
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.payload_builder import build_payload
from tests.helpers.fake_ports import FakeTokenizer


def test_what_precedes_a_chunk_stands_next_to_it_and_the_farthest_first():
    before, near, nearer, chunk = (
        Passage(number, "d", name, name) for number, name in enumerate(("before", "c", "b", "a"))
    )
    config = PrimeConfig("Use these. ", "chunk", ("before", "hits"), neighbours_max=3)
    prime = Primitive("p", PrimitiveKind.PRIMING, "p", config.near, ("stored",), config)
    store = ObjectStore()
    for key, value in (("chunk", chunk), ("before", (before,)), ("hits", (chunk, nearer, near))):
        store.put(key, value)
    payload, _ = build_payload(prime, store, FakeTokenizer(), SearchScope("a"), FULL_ATTENTION, "a")
    assert isinstance(payload, PrimePayload)
    texts = ["".join(map(chr, segment.token_ids or ())) for segment in payload.segments[1:]]
    assert texts == [config.prefix, *map(str, (near, nearer, before, chunk))]
    assert payload.cache_salt == "a"
