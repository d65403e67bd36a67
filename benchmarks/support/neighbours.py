"""The neighbours of passages among themselves, as `heddle index --prime` finds them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.data import file_digest, made_from
from benchmarks.support.engine_driver import EngineDriver
from heddle.core.passages import Passage, embedding_text
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.engines.embedding.build import EmbeddingSettings, build_engine, default_model_dir
from heddle.evals.context import sample
from heddle.evals.dataset import Dataset
from heddle.runtime.neighbours import neighbours_of

POOL_QUESTIONS: Final = 250  # whose passages are searched for neighbours
SPARE: Final = 8  # looked at beyond what is asked for: equal texts count once


def shown_passages(dataset: Dataset) -> tuple[Passage, ...]:
    """Return the passages of a data set's questions, each once."""
    shown = (passage for question in dataset.questions for passage in question.passages or ())
    return tuple({passage.chunk_id: passage for passage in shown}.values())


class Neighbourhood:
    """The passages that a data set's questions show, and those of others, by MiniLM.

    So a passage's neighbours are not only those that are shown with it: what a run measures
    depends little on how few questions it asks.

    Args:
        asked: the questions of a run.
        whole: the data set that they were taken from.
    """

    def __init__(self, asked: Dataset, whole: Dataset, seed: int) -> None:
        others = Dataset(whole.name, sample(whole, POOL_QUESTIONS, seed))
        pool = {p.chunk_id: p for p in (*shown_passages(asked), *shown_passages(others))}
        self._passages = tuple(pool.values())
        self._places = {chunk_id: place for place, chunk_id in enumerate(pool)}
        self._vectors = _vectors([embedding_text(p.title, p.text) for p in self._passages])
        self._before = _preceding(asked)

    def of(
        self, passage: Passage, count_max: int, *, nearest_only: bool = False
    ) -> tuple[Passage, ...]:
        """Return what precedes a passage in its document, and then the most similar ones.

        `nearest_only`: without the former, as FusionRAG does it.
        """
        first = () if nearest_only else self._before.get(passage.chunk_id, ())
        near = self._vectors @ self._vectors[self._places[passage.chunk_id]]
        order = np.argsort(-near, kind="stable")[: count_max + SPARE].tolist()
        return neighbours_of(passage, (*first, *(self._passages[i] for i in order)), count_max)


def _preceding(dataset: Dataset) -> dict[int, tuple[Passage]]:
    """Return what precedes passages: a title that is given twice in a row is one document's."""
    return {
        passage.chunk_id: (before,)
        for question in dataset.questions
        for before, passage in pairwise(question.passages or ())
        if before.title == passage.title
    }


def _vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts, or take what an earlier run has kept. Shapes: result [texts, d]."""
    embedder = file_digest(default_model_dir() / "model.safetensors")
    ingredients = {"texts": list(texts), "embedder": embedder}
    path = made_from("vectors", ingredients, by_model=True) / "vectors.npy"
    if not path.is_file():
        part = path.with_name("part.npy")
        np.save(part, _embed(tuple(texts)))
        part.replace(path)
    kept: NDArray[np.float32] = np.load(path)
    return kept


def _embed(texts: tuple[str, ...]) -> NDArray[np.float32]:
    settings = EmbeddingSettings(threads=torch.get_num_threads())
    driver = EngineDriver(build_engine("embedding", 1, settings))
    result = driver.result_of(driver.send(PrimitiveKind.EMBEDDING, EmbedPayload(texts)))
    assert isinstance(result, Vectors)
    return result.values
