"""A prompt of three stored chunks in another order, as the engine and the oracle see it."""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import torch

from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle
from tests.helpers.tiny_models import prompt

TOLERANCE = 5e-6
PREFIX = prompt(21, 0)
CHUNKS = [prompt(37, 1), prompt(18, 2), prompt(50, 3)]
QUESTION = prompt(9, 4)
ORDER = (2, 0, 1)


def rel_diff(got, expected):
    """Return the largest difference over the largest value."""
    return float((got - expected).abs().max() / expected.abs().max())


def served(model, prefix=PREFIX, **options):
    """Return an engine whose store knows every chunk right behind the prefix."""
    serving = FusedServing(model, **options)
    for chunk in CHUNKS:
        serving.ask(segments(prefix, [chunk], prompt(3, 9)))
    return serving


def ids_of(chunks, prefix=PREFIX, question=QUESTION):
    """Return the tokens of a prompt."""
    return [*prefix, *(token for chunk in chunks for token in chunk), *question]


def spans_of(chunks, prefix=PREFIX):
    """Return where each chunk of a prompt lies, as slices."""
    stops = list(accumulate(map(len, chunks), initial=len(prefix)))
    return [slice(start, stop) for start, stop in pairwise(stops)]


def stored_kv(oracle, chunks):
    """Return (start, KV) pairs: each chunk's as computed right behind the prefix."""
    kv = [oracle.chunk_kv(PREFIX, chunk) for chunk in chunks]
    return [(span.start, part) for span, part in zip(spans_of(chunks), kv, strict=True)]


def full_logits(model, ids):
    """Return what full attention gives behind the last token."""
    return FusionOracle(model).run(ids)[0][-1]


def reused_logits(model, chunks, question=QUESTION):
    """Return what full reuse of every chunk gives behind the last token."""
    oracle = FusionOracle(model)
    return oracle.run(ids_of(chunks, question=question), stored_kv(oracle, chunks))[0][-1]


@dataclass
class ThreeChunks:
    """The prompt; `stored` are (start, KV) pairs, each chunk's as computed behind the prefix.

    The first chunk is right behind the prefix here too, so its KV is lossless and only the tokens
    of the other two, `candidates`, are ever computed anew.
    """

    model: object
    chunks: list = field(default_factory=lambda: [CHUNKS[i] for i in ORDER])

    def __post_init__(self):
        self.segments = segments(PREFIX, self.chunks, QUESTION)
        self.ids = ids_of(self.chunks)
        self.oracle = FusionOracle(self.model)
        spans = spans_of(self.chunks)
        self.starts = [span.start for span in spans]
        self.question = list(range(spans[-1].stop, len(self.ids)))
        self.uncovered = [*range(len(PREFIX)), *self.question]
        self.candidates = list(range(self.starts[1], spans[-1].stop))
        self.stored = stored_kv(self.oracle, self.chunks)

    def spans(self):
        """Return where the candidate chunks lie."""
        return [
            range(start, start + len(chunk))
            for start, chunk in zip(self.starts[1:], self.chunks[1:], strict=True)
        ]

    def top(self, scores, count):
        """Return the `count` positions with the highest scores, of {position: score}."""
        return sorted(scores, key=lambda position: -scores[position])[:count]

    def logits(self, selected=(), stored=None):
        """Return the last token's logits where these positions are computed anew as well."""
        active = sorted({*self.uncovered, *selected})
        stored = self.stored if stored is None else stored
        return self.oracle.run(self.ids, stored, active)[0][-1]

    def looks(self, queries, keys):
        """Return how much queries look at each token of a chunk. Shapes: [heads, n, head_dim]."""
        keys = keys.repeat_interleave(queries.shape[0] // keys.shape[0], 0)
        scale = self.model.model.layers[0].self_attn.scaling
        return (queries @ keys.transpose(1, 2) * scale).softmax(-1).sum((0, 1))

    def question_scores(self, queries):
        """Return {position: score} of all candidates, by FusionRAG §3.2."""
        row = self.oracle.run(self.ids, self.stored, self.uncovered)[1]
        scores = {}
        for span in self.spans():
            positions = torch.tensor(list(span))
            keys = self.oracle.rotated(row.keys[-1][None][:, :, positions], positions)[0]
            scores.update(zip(span, self.looks(queries, keys).tolist(), strict=True))
        return scores
