"""How much chunk KV is stored and computed again, by which of it a prompt can find (no model).

prefix: a standard prefix cache: KV is found behind the very same tokens only.
paths:  FusionRAG's Alternative Path (§4.1) as printed: chunks before it are dropped one by one.
alias:  what Heddle does: the paths, then the chunk by its content alone; KV that was computed
        behind reused KV never gets a path, which would pass for exact. With room for everything
        no chunk is then ever computed twice.

All three run the store's own keys and directory. The paper's mix: 1,000
queries, 60 % of the chunks from a knowledge base (preprocessed), 30 % uploaded and shared, 10 %
unique. What the paper leaves open is chosen so that its own form comes to its figures, within three
points; chunks a query, shares, popularity and the number of chunks vary by ±20 % in the grid.
RAGPulse: the passages of a real trace, behind the system prompt as recorded (which differs in
nearly every request), and behind its first part only, which all requests of a service share. Its
passages are not preprocessed. Storage counts the preprocessed KV too; sizes are in tokens.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from benchmarks.support.data import rows
from heddle.kv.chunk_directory import ChunkDirectory
from heddle.kv.chunk_key import HitKind, PromptKeys

FORMS = ("prefix", "paths", "alias")
PAPER = {"storage_drop": 0.710, "recompute_drop": 0.823, "hit_rate": 0.779}
UNLIMITED = 1 << 62
HALF_LIFE_S = 600.0


@dataclass(frozen=True, slots=True)
class Mix:
    """The paper's mix; what the paper leaves open has a reason beside it.

    Of 275 to 400 chunks and exponents of 0.65 to 0.8, these bring its form (`paths`) nearest to its
    figures; RAGPulse's passages have an exponent of 0.74 by maximum likelihood.
    """

    queries: int = 1000
    chunks: int = 10  # a query: the paper's top-n
    knowledge_base_share: float = 0.6
    shared_to_unique: float = 3.0  # 30 : 10 of what the knowledge base leaves
    pool: int = 275  # chunks in the knowledge base, and as many shared uploads
    zipf: float = 0.7
    tokens_min: int = 128
    tokens_max: int = 512

    def drawn(self, seed: int) -> tuple[list["Prompt"], range, dict[int, int]]:
        """Draw the prompts; returns them, the preprocessed chunks, and all chunks' sizes.

        Chunk ids: the knowledge base from 0, the shared uploads behind it, then the unique ones.
        """
        rng = np.random.default_rng(seed)
        weights = 1 / np.arange(1, self.pool + 1) ** self.zipf
        weights /= weights.sum()
        rest = 1 - self.knowledge_base_share
        shared = rest * self.shared_to_unique / (1 + self.shared_to_unique)
        shares = (self.knowledge_base_share, shared, rest - shared)
        unique = itertools.count(2 * self.pool)
        prompts = []
        for query in range(self.queries):
            counts = rng.multinomial(self.chunks, shares)
            chunks = [
                *rng.choice(self.pool, counts[0], replace=False, p=weights).tolist(),
                *(self.pool + rng.choice(self.pool, counts[1], replace=False, p=weights)).tolist(),
                *itertools.islice(unique, int(counts[2])),
            ]
            prompts.append(Prompt(float(query), (0,), tuple(rng.permutation(chunks).tolist())))
        lengths = rng.integers(self.tokens_min, self.tokens_max + 1, next(unique))
        return prompts, range(self.pool), dict(enumerate(lengths.tolist()))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as content ids: equal ids are equal tokens."""

    now_s: float
    prefix: tuple[int, ...]
    chunks: tuple[int, ...]


@dataclass(slots=True)
class Outcome:
    """What one form did with a stream of prompts."""

    references: int = 0
    stored_tokens: int = 0
    prefilled_tokens: int = 0
    redundant_prefills: int = 0
    hits: dict[str, int] = field(default_factory=dict)

    @property
    def hit_rate(self) -> float:
        """Share of the chunks that were found."""
        return 1 - self.hits[HitKind.MISS.value] / self.references

    def beside(self, prefix: "Outcome") -> dict[str, float]:
        """Return the figures of the paper, beside what a prefix cache did with the same stream."""
        return {
            "hit_rate": self.hit_rate,
            "storage_drop": 1 - self.stored_tokens / prefix.stored_tokens,
            "recompute_drop": 1 - self.redundant_prefills / prefix.redundant_prefills,
        }


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run mix, grid and trace; returns settings, a row for each case and form, the headline."""
    mix = Mix(queries=200) if quick else Mix()
    table = [*_case("paper's mix", *mix.drawn(seed))]
    if not quick:
        for name, prompts, sizes in _traces():
            table += _case(name, prompts, (), sizes)
    alias = table[FORMS.index("alias")]
    steps = (0.8, 1.2) if quick else (0.8, 1.0, 1.2)
    grid = [(point, *_drops(point, seed)) for point in _grid(mix, steps)]
    worst_mix, worst_drop, _ = min(grid, key=lambda point: point[1])
    worst_recompute_drop = min(recompute_drop for *_, recompute_drop in grid)
    for row in table:
        print(
            f"{row['case']:<34} {row['form']:<7} stored {row['stored_tokens']:>9,} tokens "
            f"(drop {row['storage_drop']:.1%}), redundant prefills "
            f"{row['redundant_prefills']:>6,} (drop {row['recompute_drop']:.1%}), hit rate "
            f"{row['hit_rate']:.1%}, {row['hits']}"
        )
    print(f"grid of {len(grid)}: storage drop at least {worst_drop:.1%}, at {worst_mix}")
    print(f"redundant prefills drop by at least {worst_recompute_drop:.1%}")
    print(f"the paper: {PAPER}")
    headline = {
        **{name: alias[name] for name in PAPER},
        "worst_storage_drop": worst_drop,
        "worst_recompute_drop": worst_recompute_drop,
    }
    table += [
        {"case": "grid", "mix": asdict(point), "storage_drop": drop, "recompute_drop": recompute}
        for point, drop, recompute in grid
    ]
    settings = {**asdict(mix), "paper": PAPER}
    return {"settings": settings, "rows": table, "headline": headline}


def _case(
    name: str, prompts: Sequence[Prompt], preprocessed: Sequence[int], sizes: dict[int, int]
) -> Iterator[dict[str, object]]:
    outcomes = [simulate(form, prompts, preprocessed, sizes) for form in FORMS]
    prefix = outcomes[0]
    for form, outcome in zip(FORMS, outcomes, strict=True):
        yield {
            "case": name,
            "form": form,
            **asdict(outcome),
            **outcome.beside(prefix),
        }


def _drops(mix: Mix, seed: int) -> tuple[float, float]:
    """Return by how much ours stores less, and computes less again, than a prefix cache."""
    drawn = mix.drawn(seed)
    prefix, alias = (simulate(form, *drawn) for form in ("prefix", "alias"))
    figures = alias.beside(prefix)
    return figures["storage_drop"], figures["recompute_drop"]


def simulate(
    form: str, prompts: Sequence[Prompt], preprocessed: Sequence[int], sizes: dict[int, int]
) -> Outcome:
    """Serve the prompts in order: look every chunk up, compute and store what is missing."""
    directory = ChunkDirectory(UNLIMITED, 0, HALF_LIFE_S)
    outcome = Outcome()
    computed = set(preprocessed)
    for chunk in preprocessed:
        keys = PromptKeys("model", "tenant", prompts[0].prefix)
        record = keys.canonical_record(keys.append((chunk,)), base=0)
        directory.add(record, sizes[chunk], 0.0, to_disk=False)
    for prompt in prompts:
        keys = PromptKeys("model", "tenant", prompt.prefix)
        is_exact = True  # whether all KV so far is what full attention gives
        for chunk in prompt.chunks:
            index = keys.append((chunk,))
            probes = (probe for probe in keys.probes(index) if _asks(form, probe.kind))
            found = directory.find(probes, prompt.now_s)
            outcome.references += 1
            if found is None:
                outcome.redundant_prefills += chunk in computed
                outcome.prefilled_tokens += sizes[chunk]
                computed.add(chunk)
                has_path = is_exact or form == "paths"
                name = keys.exact_record if has_path else keys.approximate_record
                directory.add(name(index, base=0), sizes[chunk], prompt.now_s, to_disk=False)
            elif found.kind is not HitKind.EXACT:
                is_exact = False
    outcome.stored_tokens = directory.host.bytes_used  # one byte stands for a token
    outcome.hits = {kind.value: count for kind, count in directory.hits.items()}
    return outcome


def _asks(form: str, kind: HitKind) -> bool:
    if form == "prefix":
        return kind is HitKind.EXACT
    return form == "alias" or kind is not HitKind.ALIAS


def _grid(mix: Mix, steps: Sequence[float]) -> Iterator[Mix]:
    """Yield the mix with each of four settings at each of these multiples."""
    for chunks, share, pool, zipf in itertools.product(steps, repeat=4):
        yield replace(
            mix,
            chunks=round(mix.chunks * chunks),
            knowledge_base_share=mix.knowledge_base_share * share,
            pool=round(mix.pool * pool),
            zipf=mix.zipf * zipf,
        )


def _traces() -> Iterator[tuple[str, list[Prompt], dict[int, int]]]:
    requests = list(rows("trace_ragpulse"))
    sizes = {chunk: tokens for request in requests for chunk, tokens in request["passages"]}
    cases = (("RAGPulse, system prompt as recorded", None), ("RAGPulse, its first part only", 1))
    for name, parts in cases:
        prompts = [
            Prompt(
                float(request["t"]),
                tuple(content for content, _ in request["system"][:parts]),
                tuple(chunk for chunk, _ in request["passages"]),
            )
            for request in requests
        ]
        yield name, prompts, sizes
