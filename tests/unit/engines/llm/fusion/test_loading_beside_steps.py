"""What comes from disk is loaded beside the steps of others. (FusionRAG §4.2)"""

import threading

import pytest

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from tests.helpers.fused_serving import FusedServing, InstantStore, segments
from tests.helpers.three_chunks import TOLERANCE, ThreeChunks, rel_diff, served
from tests.helpers.tiny_models import prompt, tiny_model

FUSED = KvReuse(ReusePolicy.FUSIONRAG, 0.15)
GIVEN_UP_S = 10.0  # a step that waits for a load ends then, and the test fails


@pytest.fixture(scope="module")
def case():
    return ThreeChunks(tiny_model("llama"))


@pytest.fixture
def slow_disk(case, tmp_path):
    """A serving with all three chunks on disk, and the event that lets reads of them end."""
    folder = {"directory": tmp_path, "disk_bytes_max": 1 << 28}
    served(case.model, **folder).engine.close()
    released = threading.Event()
    released.set()  # a store that opens reads a little, to learn how fast its disk is

    class SlowStore(InstantStore):
        def _read(self, ticket):
            assert released.wait(GIVEN_UP_S), "a step waited for a load"
            return super()._read(ticket)

    serving = FusedServing(case.model, store_class=SlowStore, **folder)
    released.clear()
    yield serving, released
    released.set()
    serving.engine.close()


def test_others_decode_and_come_in_while_a_prompt_waits_for_its_loads(slow_disk, case):
    serving, released = slow_disk
    decoding = serving.start(segments(prompt(20, 6), [], prompt(30, 7)), KvReuse(), new_tokens=12)
    while len(serving.logits.get(decoding, ())) < 3:
        serving.step()
    loading = serving.start(case.segments, FUSED)
    later = serving.start(segments(prompt(20, 8), [], prompt(30, 9)), KvReuse(), new_tokens=4)
    serving.drain()
    assert set(serving.tokens) >= {decoding, later}
    assert len(serving.logits[decoding]) == 12
    assert loading not in serving.prefilled
    released.set()
    serving.drain_loads([loading])
    fused = serving.prefilled[loading].fused
    assert "miss" not in fused.chunks
    assert fused.tokens_from_disk == sum(map(len, case.chunks))


def test_a_prompt_computes_the_same_however_long_its_loads_take(slow_disk, case):
    serving, released = slow_disk
    loading = serving.start(case.segments, FUSED)
    serving.start(segments(prompt(20, 6), [], prompt(30, 7)), KvReuse(), new_tokens=4)
    serving.drain()
    released.set()
    serving.drain_loads([loading])
    at_once = serving.ask(case.segments, FUSED)  # all in host memory now
    assert rel_diff(serving.logits[loading][0], at_once) < TOLERANCE
