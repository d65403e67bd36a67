"""Every policy against the oracle, which selects again from numbers of its own."""

import math

import pytest
import torch

from heddle.core.kv_reuse import KvReuse, QuestionPass, ReusePolicy
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.fusion_oracle import PlainKv
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    TOLERANCE,
    ThreeChunks,
    rel_diff,
    served,
)
from tests.helpers.tiny_models import FAMILIES, tiny_model

RATIO = 0.3
APPROXIMATE = [policy for policy in ReusePolicy if policy is not ReusePolicy.FULL]
SLICES = pytest.mark.parametrize("step_tokens", [512, 19])


def reuse_of(name, ratio):
    """Return a policy by its name; two of them have a form that is an option."""
    if name == "legacy":
        return KvReuse(ReusePolicy.CACHEBLEND, ratio, legacy_mask=True)
    if name == "with_context":
        return KvReuse(ReusePolicy.FUSIONRAG, ratio, question=QuestionPass.WITH_CONTEXT)
    return KvReuse(ReusePolicy(name), ratio)


ALL = [*(policy.value for policy in APPROXIMATE), "legacy", "with_context"]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


@pytest.fixture(scope="module")
def case(model):
    return ThreeChunks(model)


def last_fused(serving):
    return next(reversed(serving.prefilled.values())).fused


@pytest.mark.parametrize("name", ALL)
def test_ratio_one_equals_full_attention(model, case, name):
    serving = served(model)
    logits = serving.ask(case.segments, reuse_of(name, 1.0))
    assert rel_diff(logits, case.oracle.run(case.ids)[0][-1]) < TOLERANCE
    assert last_fused(serving).tokens_recomputed == len(case.candidates)


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("cacheblend", "legacy")])
def test_ratio_zero_equals_full_reuse(model, case, name):
    serving = served(model)
    logits = serving.ask(case.segments, reuse_of(name, 0.0))
    assert rel_diff(logits, case.logits()) < TOLERANCE
    assert last_fused(serving).tokens_recomputed == 0


@SLICES
def test_the_question_alone_selects(model, case, step_tokens):
    serving = served(model, step_tokens=step_tokens)
    logits = serving.ask(case.segments, reuse_of("fusionrag", 0.1))

    _, _, queries = case.oracle.run(case.ids, (), case.question)
    budget = int(0.1 * len(case.candidates))
    selected = case.top(case.question_scores(queries), budget)
    assert rel_diff(logits, case.logits(selected)) < TOLERANCE

    _, _, queries = case.oracle.run(case.ids, case.stored, case.uncovered)
    with_context = case.top(case.question_scores(queries[:, -len(QUESTION) :]), budget)
    assert sorted(with_context) != sorted(selected), "a weak test"


def first_layers_fresh(case, stored):
    """Return the row with the first two layers as full attention gives them, and deviations."""
    _, full, _ = case.oracle.run(case.ids)
    row = PlainKv(torch.zeros_like(full.keys), torch.zeros_like(full.values))
    for start, kv in stored:
        span = slice(start, start + kv.keys.shape[2])
        row.keys[:, :, span], row.values[:, :, span] = kv.keys, kv.values
    moved = ((full.values[1] - row.values[1]) ** 2).sum((0, 2))
    row.keys[:2], row.values[:2] = full.keys[:2], full.values[:2]
    return row, dict(enumerate(moved.tolist()))


@SLICES
@pytest.mark.parametrize("ratio", [RATIO, 0.0])
def test_cacheblend_selects_what_moves_furthest(model, case, step_tokens, ratio):
    serving = served(model, step_tokens=step_tokens)
    logits = serving.ask(case.segments, reuse_of("cacheblend", ratio))

    row, moved = first_layers_fresh(case, case.stored)
    budget = int(ratio * len(case.candidates))
    selected = case.top({p: moved[p] for p in case.candidates}, budget)
    assert rel_diff(logits, case.logits(selected, stored=[(0, row)])) < TOLERANCE
    assert rel_diff(logits, case.logits(selected)) > 10 * TOLERANCE, "a weak test"
    fused = last_fused(serving)
    cached = 64  # full pages of the prefix and the first chunk, by the prefix cache
    assert (fused.tokens_recomputed, fused.tokens_surveyed) == (budget, len(case.ids) - cached)


def test_cacheblend_leaves_the_first_layers_as_full_attention_does(model, case):
    serving = served(model)
    row = serving.kv(case.segments, reuse_of("cacheblend", RATIO))
    exact = served(model).kv(case.segments, KvReuse())
    for layer in (0, 1):
        assert rel_diff(row.keys[layer], exact.keys[layer]) < TOLERANCE
        assert rel_diff(row.values[layer], exact.values[layer]) < TOLERANCE
    assert rel_diff(row.values[-1], exact.values[-1]) > 1e-3


def test_the_legacy_mask_is_that_of_the_last_positions(model, case):
    logits = served(model).ask(case.segments, reuse_of("legacy", RATIO))

    alone = case.oracle.chunk_kv([], QUESTION)
    prefix = case.oracle.chunk_kv([], PREFIX)
    stored = [(0, prefix), *case.stored, (case.question[0], alone)]
    row, moved = first_layers_fresh(case, stored)
    rivals = [*case.candidates, *case.question[:-1]]
    selected = case.top({p: moved[p] for p in rivals}, int(RATIO * len(rivals)))
    active = sorted([*selected, case.question[-1]])
    limits = range(len(case.ids) - len(active), len(case.ids))
    expected, _, _ = case.oracle.run(case.ids, [(0, row)], active, limits)
    assert rel_diff(logits, expected[-1]) < TOLERANCE
    causal, _, _ = case.oracle.run(case.ids, [(0, row)], active)
    assert rel_diff(logits, causal[-1]) > 1e-3, "the mask should matter"


# Cache-Craft: the chunks were computed in one prompt, A, B, C; then B, C, A is asked for.

A, B, C = CHUNKS
FIXED = KvReuse(ReusePolicy.CACHECRAFT_FIXED, RATIO)
CFO = KvReuse(ReusePolicy.CACHECRAFT, RATIO)


class Crafted:
    """The prompt that stored the chunks, the one that reuses them, and what must be selected."""

    def __init__(self, case):
        self.oracle = case.oracle
        self.starts = {"A": 21, "B": 58, "C": 76}
        self.lengths = {"A": 37, "B": 18, "C": 50}
        self.old_ids = [*PREFIX, *A, *B, *C, *QUESTION]
        _, self.kv, _ = self.oracle.run(self.old_ids)
        weights = torch.stack(self.oracle.weights).mean(1)  # over heads: [layers, tokens, tokens]
        self.means, self.last = weights.mean(0), weights[-1]
        self.stored, start = [], len(PREFIX)
        self.new_starts = {}
        for name in "BCA":
            old, length = self.starts[name], self.lengths[name]
            span = slice(old, old + length)
            self.stored.append(
                (start, PlainKv(self.kv.keys[:, :, span], self.kv.values[:, :, span]))
            )
            self.new_starts[name] = start
            start += length
        self.new_ids = [*PREFIX, *B, *C, *A, *QUESTION]
        self.uncovered = [*range(21), *range(start, len(self.new_ids))]

    def span(self, name):
        return slice(self.starts[name], self.starts[name] + self.lengths[name])

    def lookback(self, name, weights):
        """Return what each token of a chunk gave to all before the chunk."""
        return weights[self.span(name), : self.starts[name]].sum(1)

    def impact(self, name):
        """Return the chunk's CCI."""
        rows, own = self.means[self.span(name)], self.lengths[name]
        before = {"prefix": slice(0, 21), **{n: self.span(n) for n in "ABC" if n < name}}
        inter = sum(
            float(rows[:, span].sum()) / (own * (span.stop - span.start))
            for span in before.values()
        )
        intra = float(rows[:, self.span(name)].sum()) / own**2
        return 1 / (1 + math.exp(-inter / intra))

    def logits(self, selected):
        active = sorted({*self.uncovered, *selected})
        return self.oracle.run(self.new_ids, self.stored, active)[0][-1]


@pytest.fixture(scope="module")
def crafted(case):
    return Crafted(case)


@SLICES
def test_cachecraft_computes_what_its_old_context_mattered_for(model, crafted, step_tokens):
    serving = FusedServing(model, step_tokens=step_tokens)
    serving.ask(segments(PREFIX, [A, B, C], QUESTION), CFO)
    logits = serving.ask(segments(PREFIX, [B, C, A], QUESTION), CFO)

    # B has lost A; C has lost A and kept B; A had only the prefix. That is never missing.
    inter = {n: float(crafted.means[crafted.span("C"), crafted.span(n)].sum()) for n in "AB"}
    kept = {"B": 0.0, "C": inter["B"] / (inter["A"] + inter["B"]), "A": 0.0}
    selected = []
    for name, share in kept.items():
        cfo = RATIO * crafted.impact(name) * (1 - share)
        count = math.ceil(cfo * crafted.lengths[name])
        lookback = crafted.lookback(name, crafted.means)
        order = torch.argsort(lookback, descending=True)[:count]
        selected += [crafted.new_starts[name] + int(i) for i in order]
    assert rel_diff(logits, crafted.logits(selected)) < TOLERANCE
    assert last_fused(serving).tokens_recomputed == len(selected)


@SLICES
def test_cachecraft_fixed_computes_what_looked_back_furthest(model, crafted, step_tokens):
    serving = FusedServing(model, step_tokens=step_tokens)
    serving.ask(segments(PREFIX, [A, B, C], QUESTION), FIXED)
    logits = serving.ask(segments(PREFIX, [B, C, A], QUESTION), FIXED)

    scores = {}
    for name in "BCA":
        lookback = crafted.lookback(name, crafted.last).tolist()
        scores.update({crafted.new_starts[name] + i: w for i, w in enumerate(lookback)})
    budget = int(RATIO * len(scores))
    selected = sorted(scores, key=lambda p: -scores[p])[:budget]
    assert rel_diff(logits, crafted.logits(selected)) < TOLERANCE


def test_chunks_stored_without_their_attention_give_their_first_tokens(model, case):
    serving = served(model)
    logits = serving.ask(case.segments, CFO)
    first = [p for span in case.spans() for p in span[: int(RATIO * len(span))]]
    assert rel_diff(logits, case.logits(first)) < TOLERANCE
    assert last_fused(serving).notes == (
        "2 of 2 reused chunks were stored without their attention: cachecraft took their first "
        "tokens, as epic does",
    )
