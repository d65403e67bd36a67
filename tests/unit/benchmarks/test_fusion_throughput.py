"""fusion-throughput: requests are judged by when they were to come, and blocking means blocking."""

import math
from dataclasses import replace

import pytest

from benchmarks import fusion_throughput
from benchmarks.support.engine_driver import EngineDriver
from benchmarks.support.open_loop import Arrival, Served, serve
from benchmarks.support.random_prompts import zipf_prompts
from benchmarks.support.stored_chunks import BlockingStore
from heddle.core.errors import InputError
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.tasks import Optimizations
from heddle.kv.chunk_directory import Found, Tier
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_key import HitKind
from heddle.kv.chunk_store import ChunkStoreSettings
from heddle.kv.disk.chunk_files import ChunkFiles
from heddle.kv.kv_encoding import KvEncoding
from tests.helpers.fused_serving import FusedServing
from tests.helpers.three_chunks import CHUNKS, ThreeChunks, served
from tests.helpers.tiny_models import tiny_model

REUSE = KvReuse(ReusePolicy.FULL_REUSE)


@pytest.fixture(scope="module")
def case():
    return ThreeChunks(tiny_model("llama"))


NEVER = 1e12  # seconds from now


def answered(case, bound_s, due_s):
    driver = EngineDriver(FusedServing(case.model).engine)
    coming = [Arrival(seconds, case.segments) for seconds in due_s]
    return serve(driver, coming, 1.0, bound_s, REUSE, Optimizations.APPROX, 2)


def test_requests_are_answered_in_time_where_there_is_time(case):
    ran = answered(case, 1e6, due_s=(0.0, 1e-6, 2e-6))
    assert ran.requests == 3
    assert len(ran.first_token_s) >= 2
    assert all(seconds > 0 for seconds in ran.first_token_s)
    assert ran.meets_bound
    assert 0 < ran.tokens_computed <= len(case.ids)


def test_a_run_ends_once_more_are_late_than_may_be(case):
    ran = answered(case, 0.0, due_s=(0.0,) * 3 + (NEVER,) * 17)
    assert ran.requests == 20
    assert not ran.meets_bound


def test_a_run_ends_once_enough_were_in_time(case):
    ran = answered(case, 1e6, due_s=(0.0,) * 9 + (NEVER,))
    assert (ran.requests, len(ran.first_token_s)) == (10, 9)
    assert ran.meets_bound


def test_one_that_is_late_ends_no_run_of_ten(case):
    ran = answered(case, 1e6, due_s=(-NEVER,) + (0.0,) * 9)
    assert sum(seconds > 1e6 for seconds in ran.first_token_s) == 1
    assert len(ran.first_token_s) == 10
    assert ran.meets_bound


def test_one_in_ten_may_be_late():
    ran = Served(10, 1.0, (0.5,) * 9 + (2.0,))
    assert ran.meets_bound
    assert not replace(ran, first_token_s=(0.5,) * 8 + (2.0,) * 2).meets_bound
    assert not replace(ran, first_token_s=(0.5,) * 8).meets_bound, "two were never answered"
    assert Served(7, 1.0, (0.5,) * 6 + (2.0,)).meets_bound, "rounded up"
    assert not Served(11, 1.0, (0.5,) * 8 + (2.0,) * 3).meets_bound


def test_a_blocking_store_is_never_waited_for(case, tmp_path):
    served(case.model, directory=tmp_path, disk_bytes_max=1 << 28).engine.close()
    settings = ChunkStoreSettings(1 << 28, tmp_path, 1 << 28, KvEncoding.AS_COMPUTED)

    class Wanted(BlockingStore):
        def __init__(self, own, fingerprint, clock):
            super().__init__(settings, fingerprint, saved_token_s=1.0)

    serving = FusedServing(case.model, store_class=Wanted)
    number = serving.start(case.segments, REUSE)
    serving.drain()  # without waiting for a load
    fused = serving.prefilled[number].fused
    serving.engine.close()
    assert fused.tokens_from_disk == sum(map(len, CHUNKS))
    assert serving.pinned_chunks == 0


def test_a_blocking_fetch_gives_the_entry_or_says_that_there_is_none(case, tmp_path):
    serving = served(case.model, directory=tmp_path, disk_bytes_max=1 << 28)
    serving.engine.close()
    settings = ChunkStoreSettings(1 << 28, tmp_path, 1 << 28, KvEncoding.AS_COMPUTED)
    store = BlockingStore(settings, "tiny", saved_token_s=1.0)
    keys = [path.name.partition(".")[0] for path in tmp_path.rglob("*.safetensors")]
    fetched = [store.fetch(bytes.fromhex(key)) for key in keys]
    store.close()
    assert len(fetched) == len(CHUNKS)
    assert all(isinstance(entry, ChunkEntry) for entry in fetched)


@pytest.mark.parametrize(("saved_token_s", "loads"), [(1e-9, 0), (1e3, len(CHUNKS))])
def test_while_it_blocks_nothing_hides_a_load(case, tmp_path, saved_token_s, loads):
    served(case.model, directory=tmp_path, disk_bytes_max=1 << 28).engine.close()
    settings = ChunkStoreSettings(
        1 << 28, tmp_path, 1 << 28, KvEncoding.AS_COMPUTED, load_bytes_per_s=1e6
    )
    store = BlockingStore(settings, "tiny", saved_token_s)
    records = [file.record for file in ChunkFiles(tmp_path, "tiny").scan(())]
    found = [Found(record, HitKind.EXACT, Tier.DISK, 1000) for record in records]
    ends_s = store.predicted_load_s(found)
    store.close()
    assert ends_s == [0.0] * loads + [math.inf] * (len(CHUNKS) - loads)


def test_what_several_prompts_begin_with_is_known_before_a_run():
    system, kind, odd = (Segment((number,)) for number in range(3))
    chunk = Segment((7,), SegmentRole.CHUNK)
    prompts = [(system, kind, chunk)] * 3 + [(system, odd, chunk)] * 2 + [(odd, chunk)] * 2
    arrivals = fusion_throughput.Arrivals([Arrival(0.0, prompt) for prompt in prompts])
    assert case_of(arrivals).beginnings == [(system, kind)]


def test_a_request_of_the_trace_is_a_prompt():
    request = {
        "system": [[1, 10], [2, 4]],
        "passages": [[3, 7], [1, 10]],
        "history": [],
        "web": [],
        "user": [[4, 1]],
    }
    both = [{"t": t, **request} for t in (0.0, 1.0)]
    prompt, same = (one.prompt for one in fusion_throughput.Arrivals.recorded(both, 0).requests)
    assert prompt == same
    assert [len(part.token_ids) for part in prompt] == [5, 2, 4, 5, 1]
    roles = [part.role is SegmentRole.CHUNK for part in prompt]
    assert roles == [False, False, True, True, False]
    assert prompt[0].token_ids == prompt[3].token_ids, "equal content has equal tokens"


def test_a_window_of_the_trace_begins_at_once_and_comes_one_a_second():
    parts = {name: [] for name in ("system", "passages", "history", "web")}
    requests = [{"t": t, "user": [[1, 8]], **parts} for t in (30.0, 40.0, 70.0, 110.0)]
    window = fusion_throughput.Arrivals.recorded(requests, seed=0)
    assert [arrival.at for arrival in window.requests] == pytest.approx([0.0, 0.375, 1.5, 3.0])
    assert window.recorded_rate == pytest.approx(3 / 80)


def test_a_window_of_the_trace_without_times_is_refused():
    parts = {name: [] for name in ("system", "passages", "history", "web")}
    with pytest.raises(InputError, match="field t of 2 requests"):
        fusion_throughput.Arrivals.recorded([{"t": 7.0, "user": [[1, 8]], **parts}] * 2, seed=0)


def case_of(*repetitions, contenders=()):
    return fusion_throughput.Case("made up", None, repetitions, contenders, None)


def found(per_s, computed):
    return fusion_throughput.Rate(per_s, Served(10, 1.0, (0.5,) * 10, computed))


def test_gains_are_taken_within_a_repetition():
    first, other = fusion_throughput.PREFIX_CACHE, fusion_throughput.FUSIONRAG
    case = case_of(contenders=(first, other))
    rates = [
        {first: found(1.0, 100), other: found(3.0, 40)},
        {first: found(2.0, 100), other: found(2.0, 50)},
        {first: found(4.0, 100), other: found(8.0, 60)},
    ]
    row = case.row(other, rates, full_s=0.2)
    assert (row["x_first"], row["x_first_range"]) == (2.0, [1.0, 3.0])
    assert (row["requests_per_s"], row["tokens_computed"]) == (3.0, 50)
    assert row["bound_s"] == pytest.approx(0.6)
    assert "compressed" not in row


def test_popular_chunks_come_more_often():
    prompts = zipf_prompts(50, 4, 3, seed=0)
    drawn = [part.token_ids for _ in range(200) for part in next(prompts)[1:-1]]
    counts = sorted((drawn.count(text) for text in set(drawn)), reverse=True)
    assert counts[0] > 3 * counts[-1]
    questions = {next(prompts)[-1].token_ids for _ in range(20)}
    assert len(questions) == 20
