"""How far reused KV is from full attention's, on average over models and prompts."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle, PlainKv
from tests.helpers.tiny_models import prompt, tiny_model

SEEDS = range(8)
SHARED = slice(58, 138)  # two of the three chunks: what may be computed anew


class _Case:
    """A model and a prompt of three chunks, of which the first is lossless."""

    def __init__(self, seed):
        self.prefix, *chunks = (prompt(n, 10 * seed + n) for n in (21, 37, 30, 50))
        self.chunks, self.question = chunks, prompt(9, seed)
        self.ids = [*self.prefix, *(t for chunk in chunks for t in chunk), *self.question]
        model = tiny_model("llama", seed)
        self.oracle = FusionOracle(model)
        self.exact = self.oracle.run(self.ids)[1]
        self.stored = [
            (start, self.oracle.chunk_kv(self.prefix, chunk))
            for start, chunk in zip((58, 88), chunks[1:], strict=True)
        ]
        self.serving = FusedServing(model)
        for chunk in chunks:
            self.serving.ask(segments(self.prefix, [chunk], prompt(3, 9)))

    def deviations(self, positions):
        """Return each shared token's distance from exact KV when these are computed anew."""
        outside = {*range(SHARED.start), *range(SHARED.stop, len(self.ids))}
        _, kv, _ = self.oracle.run(self.ids, self.stored, sorted(outside | set(positions)))
        return _distances(kv, self.exact)

    def served(self, ratio):
        """Return the mean distance in the engine's row, by what the question looks at."""
        reuse = KvReuse(ReusePolicy.FUSIONRAG, ratio, primed=False)
        row = self.serving.kv(segments(self.prefix, self.chunks, self.question), reuse)
        places = torch.arange(len(self.ids))
        turned = [self.oracle.rotated(layer[None], places)[0] for layer in self.exact.keys]
        return _distances(row, PlainKv(torch.stack(turned), self.exact.values)).mean()


def _distances(kv, exact):
    """Return how far the shared tokens' KV is from the exact one. Shapes: [tokens]."""
    squares = (kv.keys - exact.keys).square() + (kv.values - exact.values).square()
    return squares.sum((0, 1, 3)).sqrt()[SHARED].numpy()


@pytest.fixture(scope="module")
def cases():
    return [_Case(seed) for seed in SEEDS]


def test_the_more_is_computed_anew_the_nearer_kv_is_to_full_attentions(cases):
    means = [np.mean([case.served(ratio) for case in cases]) for ratio in (0, 0.15, 0.3, 0.6, 1)]
    assert all(before > after for before, after in pairwise(means))
    assert means[-1] < 1e-3 < means[-2]


@pytest.mark.parametrize("ratio", [0.15, 0.3])
def test_what_the_question_looks_at_lies_between_the_best_choice_and_a_random_one(cases, ratio):
    best, guided, random = [], [], []
    for seed, case in enumerate(cases):
        places = np.arange(SHARED.start, SHARED.stop)
        count = int(ratio * len(places))
        worst_first = places[np.argsort(-case.deviations([]))]
        best.append(case.deviations(worst_first[:count]).mean())
        guided.append(case.served(ratio))
        drawn = np.random.default_rng(seed).choice(places, count, replace=False)
        random.append(case.deviations(drawn).mean())
    assert np.mean(best) < np.mean(guided) < np.mean(random)
