"""Texts a second on one core: sixteen clients with a text each, and one bulk call.

All embed the same texts of mixed lengths (4 to 220 words) with MiniLM in float32 and one thread:

- heddle: `EmbeddingEngine` in this process; a client sends its next text when it has its answer.
- encode: sentence-transformers, `encode` of each text as it comes; the bulk call is one `encode`.
- window: sentence-transformers behind a plain batching window: what came within 8 ms is one
  `encode` of up to 32 texts.
- infinity: infinity-emb's engine in this process, where it can be imported; the output says where
  not, and why (`benchmarks/contenders/infinity_embedding.py` says how it installs).

CPU time of this process, plus the time that windows are waited out, so that neighbours on the
machine don't count; what infinity waits for its batches isn't counted either. In turns, medians.
`x_clients` and `x_bulk` are heddle over the best other.
"""

import itertools
import random
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import torch

from benchmarks.contenders.infinity_embedding import infinity_if_installed
from benchmarks.support.engine_driver import EngineDriver
from heddle.core.errors import InputError
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.engines.embedding.build import EmbeddingSettings, build_engine, default_model_dir

WINDOW_S: Final = 0.008
WINDOW_ROWS: Final = 32
WORDS: Final = [
    "the",
    "a",
    "of",
    "harbour",
    "river",
    "light",
    "stone",
    "winter",
    "market",
    "letter",
    "keeper",
    "bridge",
    "under",
    "between",
    "who",
    "built",
    "when",
    "first",
    "where",
    "after",
    "is",
    "was",
    "not",
    "every",
    "small",
    "old",
    "northern",
    "painted",
    "quiet",
    "museum",
    "ship",
]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is embedded."""

    seed: int
    texts: int
    repetitions: int
    clients: int = 16


Embed = Callable[[Sequence[str]], float]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run all in turns; returns settings, one row for each contender and shape, the headline."""
    settings = Settings(seed, 64, 2) if quick else Settings(seed, 384, 7)
    torch.set_num_threads(1)
    texts = _texts(settings)
    heddle, encoder = _Heddle(settings.clients), _Encoder(settings.clients)
    contenders: dict[tuple[str, str], Embed] = {
        ("clients", "heddle"): heddle.clients,
        ("clients", "encode"): encoder.one_by_one,
        ("clients", "window"): encoder.windows,
        ("bulk", "heddle"): heddle.bulk,
        ("bulk", "encode"): encoder.bulk,
    }
    expected = heddle.vectors(texts[:32])
    np.testing.assert_allclose(expected, encoder.vectors(texts[:32]), atol=1e-4)
    with ExitStack() as started:
        infinity, note = infinity_if_installed(default_model_dir(), settings.clients, WINDOW_ROWS)
        print(f"infinity-emb: {note}")
        if infinity is not None:
            started.callback(infinity.close)
            np.testing.assert_allclose(expected, infinity.vectors(texts[:32]), atol=1e-4)
            contenders["clients", "infinity"] = infinity.clients
            contenders["bulk", "infinity"] = infinity.bulk
        rates = _rates(contenders, texts, settings.repetitions)
    rows = []
    for (shape, name), found in rates.items():
        row = {"shape": shape, "contender": name, "texts_per_s": statistics.median(found)}
        rows.append({**row, "slowest": min(found), "fastest": max(found)})
        print(
            f"{shape:<8} {name:<8} {row['texts_per_s']:6.1f} texts/s "
            f"({min(found):.1f} to {max(found):.1f})"
        )
    headline = {
        "x_clients": _ratio(rates, "clients"),
        "x_bulk": _ratio(rates, "bulk"),
    }
    return {
        "settings": {**asdict(settings), "infinity": note},
        "rows": rows,
        "headline": headline,
    }


def _rates(
    contenders: Mapping[tuple[str, str], Embed], texts: Sequence[str], repetitions: int
) -> dict[tuple[str, str], list[float]]:
    """Run all contenders in turns; returns the texts a second of each repetition."""
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in contenders}
    for repetition in range(repetitions + 1):
        for key, embed in contenders.items():
            seconds = embed(texts)
            if repetition:  # the first one warms up
                rates[key].append(len(texts) / seconds)
    return rates


class _Heddle:
    def __init__(self, clients: int) -> None:
        settings = EmbeddingSettings(dtype="float32", device="cpu", cache_bytes=0)
        self._driver = EngineDriver(build_engine("embedding", 1, settings))
        self._clients = clients

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts."""
        task = self._driver.send(PrimitiveKind.EMBEDDING, EmbedPayload(tuple(texts)))
        result = self._driver.result_of(task)
        assert isinstance(result, Vectors)
        return result.values

    def bulk(self, texts: Sequence[str]) -> float:
        """Return what one call takes [s]."""
        started_s = time.process_time()
        self.vectors(texts)
        return time.process_time() - started_s

    def clients(self, texts: Sequence[str]) -> float:
        """Return what all clients together take, each with one text under way [s]."""
        started_s = time.process_time()
        waiting = iter(texts)
        under_way = 0
        for text in itertools.islice(waiting, self._clients):
            self._send(text)
            under_way += 1
        while under_way:
            for _ in self._driver.step():
                under_way -= 1
                for text in itertools.islice(waiting, 1):
                    self._send(text)
                    under_way += 1
        return time.process_time() - started_s

    def _send(self, text: str) -> None:
        self._driver.send(PrimitiveKind.EMBEDDING, EmbedPayload((text,)))


class _Encoder:
    def __init__(self, clients: int) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ModuleNotFoundError as error:
            raise InputError(
                "this benchmark compares with sentence-transformers: pip install "
                "sentence-transformers"
            ) from error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._model = SentenceTransformer(
                str(default_model_dir()), device="cpu", local_files_only=True
            )
        self._clients = clients

    def vectors(self, texts: Sequence[str], rows: int = WINDOW_ROWS) -> np.ndarray:
        """Return the vectors of texts."""
        encoded = self._model.encode(list(texts), batch_size=rows, show_progress_bar=False)
        return np.asarray(encoded)

    def bulk(self, texts: Sequence[str]) -> float:
        """Return what one call takes [s]."""
        started_s = time.process_time()
        self.vectors(texts)
        return time.process_time() - started_s

    def one_by_one(self, texts: Sequence[str]) -> float:
        """Return what a call for each text takes [s]; on one core they can only take turns."""
        started_s = time.process_time()
        for text in texts:
            self.vectors([text])
        return time.process_time() - started_s

    def windows(self, texts: Sequence[str]) -> float:
        """Return what calls of what all clients have sent take, and the waits for it [s]."""
        started_s = time.process_time()
        waited_s = 0.0
        for at in range(0, len(texts), self._clients):
            waited_s += WINDOW_S
            self.vectors(texts[at : at + self._clients])
        return time.process_time() - started_s + waited_s


def _texts(settings: Settings) -> list[str]:
    rng = random.Random(settings.seed)
    lengths = [min(220, max(4, round(rng.lognormvariate(3.3, 0.9)))) for _ in range(settings.texts)]
    return [" ".join(rng.choices(WORDS, k=length)) for length in lengths]


def _ratio(rates: dict[tuple[str, str], list[float]], shape: str) -> float:
    """Return our median rate over the best other's."""
    medians = {name: statistics.median(r) for (s, name), r in rates.items() if s == shape}
    ours = medians.pop("heddle")
    return ours / max(medians.values())
