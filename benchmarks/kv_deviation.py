"""How far reused chunk KV lies from full attention's, layer by layer, with and without priming.

The deviation of a layer is the squared difference of keys and values to those of full attention,
over the tokens of all chunks but the first (whose KV is exact), as a share of the squared size of
full attention's own (FusionRAG eq. 7, made relative). Means over questions, 95 % intervals.

Beside it: what would be left in the second layer if the 15 % of tokens that deviate most were right
(figure 3a: more than half in the paper's three models); in which fifth of a chunk and of a prompt's
chunks the second layer deviates (figures 3b and 7b), and which tokens each policy computes anew at
15 % (figure 8); how often a passage is shown with one of its nearest neighbours (figure 7a), which
are looked for among the passages of 250 questions of the data set. The paper says that priming
takes 70 % off the second layer, for one question of Musique.

--model NAME, --dataset NAME, --questions N as for fusion-quality.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.neighbours import Neighbourhood, shown_passages
from benchmarks.support.reusing_model import PromptKv, Prompts, ReusingModel
from heddle.app.models.model_source import READER
from heddle.cli.progress import ProgressLines
from heddle.core.errors import InputError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse, PrimedWith, ReusePolicy
from heddle.evals.catalogue import READER_NOTES, load_dataset
from heddle.evals.dataset import Dataset
from heddle.evals.metrics.bootstrap import estimate_mean
from heddle.evals.question import EvalQuestion

QUESTIONS: Final = 50
TOP_N: Final = 10
RATIO: Final = 0.15
SECOND: Final = 1  # index of the second layer: the first whose KV depends on other chunks
PARTS: Final = 5
TOP_NS: Final = (2, 5, 10)
PAPER: Final = {"layer2_drop": 0.70, "layer2_left_after_15": 0.50}
RAW, PRIMED = "raw", "primed"
VARIANTS: Final = {
    name: KvReuse(ReusePolicy.FULL_REUSE, 0.0, primed=name == PRIMED, always=True)
    for name in (RAW, PRIMED)
}
SELECTING: Final = {
    policy.value: KvReuse(policy, RATIO, primed=False, always=True)
    for policy in ReusePolicy
    if policy not in (ReusePolicy.FULL, ReusePolicy.FULL_REUSE)
}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What a question's prompt shows, token by token, for the n tokens of its reused chunks.

    Shapes: `size` and each of `deviation`, by variant, [layers, n] float64; each of `selected`, by
    policy, [n] bool; `place` and `chunk` [n] int64: the fifth of its chunk, and of the prompt's
    reused chunks, that a token lies in.
    """

    size: NDArray[np.float64]
    deviation: Mapping[str, NDArray[np.float64]]
    selected: Mapping[str, NDArray[np.bool_]]
    place: NDArray[np.int64]
    chunk: NDArray[np.int64]

    def shares(self, variant: str) -> NDArray[np.float64]:
        """Return the deviation of each layer. Shape: [layers]."""
        shares: NDArray[np.float64] = self.deviation[variant].sum(axis=1) / self.size.sum(axis=1)
        return shares

    @property
    def left_after_ratio(self) -> float:
        """The share of the second layer's deviation that its best tokens hold, raw."""
        ascending = np.sort(self.deviation[RAW][SECOND])
        return float(ascending[: len(ascending) - int(RATIO * len(ascending))].sum()) / float(
            ascending.sum()
        )


def run(
    quick: bool,
    seed: int,
    *,
    model: str = READER,
    dataset: str = READER_NOTES,
    questions: int | None = None,
) -> dict[str, object]:
    """Compute each prompt's KV in every way; the headline is about the second layer."""
    count = (5 if quick else QUESTIONS) if questions is None else questions
    prompts = Prompts.of(model)
    whole = load_dataset(dataset)
    asked = replace(whole, questions=_chosen(whole, prompts, count))
    near = Neighbourhood(asked, whole, seed)
    passages = shown_passages(asked)
    found = []
    with tempfile.TemporaryDirectory() as folder, ProgressLines() as progress:
        reusing = ReusingModel(prompts, Path(folder))
        try:
            for done, count in reusing.prime(
                {p: near.of(p, TOP_N) for p in passages}, PrimedWith.PRECEDING
            ):
                progress.update("priming", done, count)
            for done, question in enumerate(asked.questions, start=1):
                found.append(_measure(reusing, question))
                progress.update("measuring", done, len(asked.questions))
        finally:
            reusing.close()
    layers = _layer_rows(found, seed)
    parts = [*_part_rows(found, "place"), *_part_rows(found, "chunk")]
    together = {n: _shown_together(near, asked.questions, n) for n in TOP_NS}
    left = sum(one.left_after_ratio for one in found) / len(found)
    headline = {
        "layer2_drop": layers[SECOND]["drop"],
        "layer2_raw": layers[SECOND][RAW],
        "layer2_primed": layers[SECOND][PRIMED],
        "last_layer_drop": layers[-1]["drop"],
        "layer2_left_after_15": left,
    }
    for row in (*layers, *parts):
        print("  ".join(f"{name} {_shown(value)}" for name, value in row.items()))
    for top_n, share in together.items():
        print(f"shown with one of its {top_n} nearest: {share:.1%} of the passages")
    print(f"the paper: {PAPER}")
    settings = {
        "model": model,
        "dataset": whole.name,
        "questions": len(found),
        "top_n": TOP_N,
        "paper": PAPER,
    }
    rows = [*layers, *parts, {"shown_together": together}]
    return {"settings": settings, "rows": rows, "headline": headline}


def _chosen(dataset: Dataset, prompts: Prompts, count: int) -> tuple[EvalQuestion, ...]:
    """Return questions from all over a data set, with a reused chunk for each part at least."""
    usable = [
        question
        for question in dataset.questions
        if len(question.passages or ()) > PARTS and prompts.fit(question)
    ]
    if not usable or count < 1:
        raise InputError(
            f"{len(usable)} of the questions of {dataset.name} have more than {PARTS} passages of "
            f"their own that fit the model's context, and {count} are wanted"
        )
    return tuple(usable[:: max(1, len(usable) // count)][:count])


def _measure(model: ReusingModel, question: EvalQuestion) -> Measured:
    full = model.prompt_kv(question, FULL_ATTENTION)
    reused = {name: model.prompt_kv(question, reuse) for name, reuse in VARIANTS.items()}
    tokens = np.concatenate([np.arange(*span) for span in full.chunks[1:]])
    lengths = [stop - start for start, stop in full.chunks[1:]]
    places = [np.arange(length) * PARTS // length for length in lengths]
    chunks = np.arange(len(lengths)) * PARTS // len(lengths)
    selected = {
        # Reused KV equals the stored one, so each token whose KV differs was computed anew.
        name: _squares(model.prompt_kv(question, reuse), reused[RAW])[-1, tokens] > 0
        for name, reuse in SELECTING.items()
    }
    return Measured(
        size=_squares(full)[:, tokens],
        deviation={name: _squares(kv, full)[:, tokens] for name, kv in reused.items()},
        selected=selected,
        place=np.concatenate(places),
        chunk=np.repeat(chunks, lengths),
    )


def _squares(kv: PromptKv, other: PromptKv | None = None) -> NDArray[np.float64]:
    """Return the squared size of each token's KV, or of its difference. Shape: [layers, tokens]."""
    total = torch.zeros(())
    for name in ("keys", "values"):
        tensor = getattr(kv.block, name).double()
        if other is not None:
            tensor = tensor - getattr(other.block, name)
        total = total + tensor.square().sum(dim=(1, 3))
    squares: NDArray[np.float64] = total.numpy()
    return squares


def _layer_rows(found: Sequence[Measured], seed: int) -> list[dict[str, float]]:
    """Return the deviation of each layer, raw and primed, and what priming takes off."""
    by_variant = {name: np.array([one.shares(name) for one in found]) for name in VARIANTS}
    rows = []
    for layer in range(by_variant[RAW].shape[1]):
        means = {
            name: estimate_mean(values[:, layer].tolist(), seed)
            for name, values in by_variant.items()
        }
        raw, primed = means[RAW], means[PRIMED]
        rows.append(
            {
                "layer": layer + 1,
                RAW: raw.mean,
                "raw_low": raw.low,
                "raw_high": raw.high,
                PRIMED: primed.mean,
                "primed_low": primed.low,
                "primed_high": primed.high,
                "drop": 1 - primed.mean / raw.mean if raw.mean > 0 else 0.0,
            }
        )
    return rows


def _part_rows(found: Sequence[Measured], by: str) -> list[dict[str, float]]:
    """Return, for each fifth, the second layer's deviation and the shares that are selected."""
    parts = [getattr(one, by) for one in found]

    def pooled(values: Callable[[Measured], NDArray[np.float64]], part: int) -> float:
        pairs = zip(found, parts, strict=True)
        return float(sum(values(one)[where == part].sum() for one, where in pairs))

    rows: list[dict[str, float]] = []
    for part in range(PARTS):
        size = pooled(lambda one: one.size[SECOND], part)
        tokens = sum(int((where == part).sum()) for where in parts)
        row: dict[str, float] = {f"fifth_by_{by}": part + 1}
        for name in VARIANTS:
            row[name] = pooled(lambda one, name=name: one.deviation[name][SECOND], part) / size
        for name in SELECTING:
            row[name] = pooled(lambda one, name=name: one.selected[name], part) / tokens
        rows.append(row)
    return rows


def _shown_together(
    near: Neighbourhood, questions: Sequence[EvalQuestion], count_max: int
) -> float:
    """Return the share of shown passages that one of their nearest neighbours is shown with."""
    shares = []
    for question in questions:
        shown = {passage.chunk_id for passage in question.passages or ()}
        for passage in question.passages or ():
            neighbours = near.of(passage, count_max)
            shares.append(any(other.chunk_id in shown for other in neighbours))
    return sum(shares) / len(shares)


def _shown(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
