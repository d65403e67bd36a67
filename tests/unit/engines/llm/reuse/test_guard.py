"""Which prompts are computed whole, by costs as the packaged reader has them on a CPU [ms]."""

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.fusion.prompt_layout import layout_of
from heddle.engines.llm.reuse.guard import TRIED_EVERY, FusionGuard, Outlook
from heddle.kv.chunk_key import HitKind
from tests.helpers.fused_serving import segments

FUSED = KvReuse(ReusePolicy.FUSIONRAG, 0.15)
COSTS = CostSnapshot(
    "llm",
    1,
    {
        "call": 5.0,
        "prefill_tokens": 0.07,
        "context_tokens": 0.002,
        "fused_rows": 2.0,
        "fused_tokens": 0.014,
    },
)
OUTLOOK = Outlook(COSTS, step_tokens=512)
QUESTION_TOKENS = 30


def why(
    stored,
    chunks=6,
    reuse=FUSED,
    outlook=OUTLOOK,
    *,
    chunk_tokens=140,
    is_ahead=False,
    wait_s=0.0,
    guard=None,
):
    """Return why a prompt is computed whole of whose chunks the first ones are stored."""
    guard = guard or FusionGuard()
    passages = [range(chunk_tokens)] * chunks
    layout = layout_of(segments(range(60), passages, range(QUESTION_TOKENS)))
    kinds = dict.fromkeys(range(stored), HitKind.CANONICAL)
    judged = guard.prompt(layout, reuse, outlook, is_ahead=is_ahead)
    return guard.against_all(judged) or guard.against(judged, kinds, wait_s)


def test_a_long_prompt_is_fused_where_enough_of_it_is_stored():
    assert why(stored=6) == ""
    assert why(stored=4) == ""
    assert "s with stored KV of 1 of its 6 chunks" in why(stored=1)


def test_a_short_prompt_is_computed_whole_whatever_is_stored():
    assert "with stored KV of all of its chunks" in why(stored=2, chunks=2, chunk_tokens=70)


def test_a_question_that_was_run_ahead_need_not_select():
    assert why(stored=2, chunks=2, chunk_tokens=70)
    assert why(stored=2, chunks=2, chunk_tokens=70, is_ahead=True) == ""


def test_what_the_prefix_cache_holds_is_not_saved_again():
    assert why(stored=6, outlook=Outlook(COSTS, 512, exact_tokens=896))


def test_beside_others_a_step_more_costs_less():
    assert why(stored=2, chunks=3)
    assert why(stored=2, chunks=3, outlook=Outlook(COSTS, 512, beside=4)) == ""


def test_a_wait_for_the_disk_counts():
    assert why(stored=6, wait_s=60.0)


def test_checking_every_token_costs_too():
    costs = COSTS._replace(coefficients_s={**COSTS.coefficients_s, "checked_tokens": 0.06})
    blended = KvReuse(ReusePolicy.CACHEBLEND, 0.15)
    assert why(stored=6, reuse=blended, outlook=Outlook(costs, 512))


def test_always_is_always():
    assert why(0, reuse=KvReuse(ReusePolicy.FUSIONRAG, 0.15, always=True)) == ""


def test_a_price_of_fused_steps_is_tried_again():
    """Else one that was measured on a busy machine would stay."""
    guard = FusionGuard()
    dear = COSTS._replace(coefficients_s={**COSTS.coefficients_s, "fused_tokens": 1.0})
    refused = [
        bool(why(6, outlook=Outlook(dear, 512), guard=guard)) for _ in range(TRIED_EVERY + 2)
    ]
    assert refused == [*[True] * TRIED_EVERY, False, True]
    assert guard.whole == TRIED_EVERY + 1
    # Where a fair price is against it as well, nothing is tried.
    assert all(why(2, 2, chunk_tokens=70, guard=guard) for _ in range(3 * TRIED_EVERY))


def test_a_trial_waits_for_a_prompt_that_is_in_doubt():
    guard = FusionGuard()
    dear = Outlook(
        COSTS._replace(coefficients_s={**COSTS.coefficients_s, "fused_tokens": 1.0}), 512
    )
    assert all(why(6, outlook=dear, guard=guard) for _ in range(TRIED_EVERY))
    assert why(6, guard=guard) == ""  # no trial: it pays
    assert why(2, 2, chunk_tokens=70, guard=guard)  # none either: a fair price is against it
    assert why(6, outlook=dear, guard=guard) == ""
    assert why(6, outlook=dear, guard=guard)
