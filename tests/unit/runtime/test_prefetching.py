"""Where prompts take stored KV, a lane reads it from disk while the search still runs."""

import pytest

from heddle.core.commands import Admit, LeaveKv, LoadKv
from heddle.core.gauges import CHUNK_KV_DISK_ONLY, CHUNK_KV_DISK_ONLY_S
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import PrefillPayload
from heddle.core.tasks import Optimizations
from heddle.passes.runner import PassRunner
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import ManualClock
from tests.helpers.running_searches import RunningSearches

FUSED = {"optimizations": Optimizations.APPROX, "kv_reuse": KvReuse(ReusePolicy.FUSIONRAG, 0.15)}
ON_DISK = {CHUNK_KV_DISK_ONLY: 100.0, CHUNK_KV_DISK_ONLY_S: 5.0}


class Storing(RunningSearches):
    """A bench whose LLM lane has stored KV on disk."""

    def __init__(self, gauges=ON_DISK, **options):
        super().__init__(**options)
        self.llm.gauges = gauges
        self.llm.post()
        self.cycle()


@pytest.mark.parametrize("busy_max", [1.0, None], ids=["guesses", "no guesses"])
def test_what_the_prompt_will_take_is_read_while_the_search_runs(oneshot, busy_max):
    bench = Storing()
    bench.runtime.lanes["llm"].busy_max = busy_max
    call = bench.submit(oneshot, tenant="a", **FUSED)
    assert [a.report_every for a in bench.vector.sent(Admit)] == [1]
    bench.look()
    (load,) = bench.llm.sent(LoadKv)
    answer = bench.ended(call)
    (prompt,) = (t.payload for t in bench.llm.tasks() if isinstance(t.payload, PrefillPayload))
    assert load.prompt.segments == prompt.segments
    assert (load.prompt.cache_salt, load.prompt.reuse) == ("a", FUSED["kv_reuse"])
    assert prompt.load_id == load.load_id
    assert bench.llm.sent(LeaveKv) == [LeaveKv(load.load_id)], "where it was not taken over"
    assert answer.receipt.kv_prefetches == 1
    assert answer.receipt.speculations == ()


@pytest.mark.parametrize(("busy_max", "every"), [(1.0, 1), (None, 0)], ids=["guesses", "none"])
def test_a_search_whose_looks_serve_no_guess_and_no_read_is_not_cut(oneshot, busy_max, every):
    bench = Storing()
    bench.runtime.lanes["llm"].busy_max = busy_max
    call = bench.submit(oneshot)
    assert [a.report_every for a in bench.vector.sent(Admit)] == [every]
    bench.ended(call)


def test_equal_looks_read_once_and_other_passages_are_read_anew(oneshot):
    bench = Storing()
    call = bench.submit(oneshot, **FUSED)
    bench.look(worse=5)
    bench.look(worse=5, fraction=0.6)
    bench.look(fraction=0.7)
    first, second = bench.llm.sent(LoadKv)
    assert first.prompt.token_ids != second.prompt.token_ids
    assert first.load_id == second.load_id, "the second takes the place of the first"
    assert bench.ended(call).receipt.kv_prefetches == 2


@pytest.mark.parametrize(
    ("gauges", "options"),
    [
        ({}, FUSED),
        ({CHUNK_KV_DISK_ONLY: 0.0, CHUNK_KV_DISK_ONLY_S: 0.0}, FUSED),
        ({CHUNK_KV_DISK_ONLY: 100.0, CHUNK_KV_DISK_ONLY_S: 0.01}, FUSED),
        (ON_DISK, {"optimizations": Optimizations.EXACT}),
        (ON_DISK, FUSED | {"optimizations": Optimizations.EXACT}),
    ],
    ids=[
        "no store",
        "all in memory",
        "a disk as fast as memory",
        "exact",
        "reuse that is not allowed",
    ],
)
def test_nothing_is_read_where_nothing_on_disk_is_wanted(oneshot, gauges, options):
    bench = Storing(gauges)
    call = bench.submit(oneshot, **options)
    bench.look()
    assert bench.llm.sent(LoadKv) == []
    assert bench.ended(call).receipt.kv_prefetches == 0


def test_an_unlikely_look_reads_nothing(oneshot):
    bench = Storing()
    call = bench.submit(oneshot, **FUSED)
    bench.look(probability=0.1)
    assert bench.llm.sent(LoadKv) == []
    bench.ended(call)


def test_a_request_that_ends_gives_its_reads_back(oneshot):
    bench = Storing()
    call = bench.submit(oneshot, **FUSED)
    bench.look()
    (load,) = bench.llm.sent(LoadKv)
    assert bench.llm.sent(LeaveKv) == []
    bench.cancel(call)
    assert bench.llm.sent(LeaveKv) == [LeaveKv(load.load_id)]


def test_the_pass_can_be_left_out_by_its_name(oneshot):
    bench = Storing(runner=PassRunner(ManualClock(), disabled=frozenset({"prefetch_kv"})))
    call = bench.submit(oneshot, **FUSED)
    bench.look()
    assert bench.llm.sent(LoadKv) == []
    bench.ended(call)


def test_the_first_passages_of_several_searches_are_read_while_the_others_go_on():
    bench = Storing(vector=1)  # row by row
    graph = RAGraph("rows").add_generation("plan", "Plan {query}", "parts", parse="lines")
    graph.add_retrieval("find", query="parts", topk=2, collect=True)
    bench.llm.texts["plan"] = ["one\nthree"]
    workflow = graph.add_generation("answer", "From {docs}.").compile()
    bench.runtime.lanes["vector"].learn_stage(1.0)  # a search is known to take its time
    call = bench.submit(workflow, **FUSED)
    bench.vector.answer_all()
    bench.cycle()
    (load,) = bench.llm.sent(LoadKv)
    assert load.prompt.reuse == FUSED["kv_reuse"]
    bench.vector.holds = lambda task: False
    assert bench.ended(call).receipt.kv_prefetches == 1
