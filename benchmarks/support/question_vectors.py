"""The embedded questions of a data set, kept once they are made."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.data import file_digest, made_from, rows
from benchmarks.support.engine_driver import EngineDriver
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.engines.embedding.build import EmbeddingSettings, build_engine, default_model_dir


def question_vectors(name: str, count: int) -> NDArray[np.float32]:
    """Return the vectors of the first questions of a data set, [count or fewer, d]."""
    return text_vectors([row["question"] for _, row in zip(range(count), rows(name), strict=False)])


def text_vectors(asked: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of texts, [n, d]."""
    texts = tuple(asked)
    embedder = file_digest(default_model_dir() / "model.safetensors")
    ingredients = {"texts": json.dumps(texts), "embedder": embedder}
    folder = made_from("questions", ingredients, by_model=True)
    path = folder / "vectors.npy"
    if not path.is_file():
        driver = EngineDriver(build_engine("embedding", 1, EmbeddingSettings()))
        result = driver.result_of(driver.send(PrimitiveKind.EMBEDDING, EmbedPayload(texts)))
        assert isinstance(result, Vectors)
        part = path.with_name("part.npy")
        np.save(part, result.values)
        part.replace(path)
    kept: NDArray[np.float32] = np.load(path)
    return kept
