"""infinity-emb's engine in this process, on the same model, dtype and thread.

Its pins (NumPy below 2, sentence-transformers below 4) exclude Heddle's, and its code runs with
both of today all the same: `pip install --no-deps infinity-emb posthog distro backoff`.
"""

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np


def infinity_if_installed(
    model: Path, clients: int, rows: int
) -> tuple["InfinityEncoder | None", str]:
    """Return infinity's engine and its version, or None and why it isn't among the contenders."""
    try:
        encoder = InfinityEncoder(model, clients, rows)
    except ImportError as error:
        return None, f"left out, it can't be imported ({error})"
    return encoder, version("infinity-emb")


class InfinityEncoder:
    """Embeds with infinity's batching, as its server does without HTTP.

    Args:
        model: the encoder's directory.
        clients: texts under way at once.
        rows: of a batch at most.

    Raises:
        ImportError: infinity-emb isn't there, or something that it imports.
    """

    def __init__(self, model: Path, clients: int, rows: int) -> None:
        os.environ["DO_NOT_TRACK"] = "1"  # read when it is imported; it reports usage otherwise
        from infinity_emb import AsyncEmbeddingEngine, EngineArgs

        logging.getLogger("infinity_emb").setLevel(logging.ERROR)
        logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
        arguments = EngineArgs(
            model_name_or_path=str(model),
            engine="torch",
            device="cpu",
            dtype="float32",
            batch_size=rows,
            bettertransformer=False,  # it calls a function that transformers has removed
            model_warmup=False,
            trust_remote_code=False,
        )
        self._engine = AsyncEmbeddingEngine.from_args(arguments)
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._engine.astart())
        self._clients = clients

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts."""
        vectors, _ = self._loop.run_until_complete(self._engine.embed(sentences=list(texts)))
        return np.stack(vectors)

    def bulk(self, texts: Sequence[str]) -> float:
        """Return what one call takes [s]."""
        started_s = time.process_time()
        self.vectors(texts)
        return time.process_time() - started_s

    def clients(self, texts: Sequence[str]) -> float:
        """Return what all clients together take, each with one text under way [s]."""
        waiting = iter(texts)

        async def client() -> None:
            for text in waiting:
                await self._engine.embed(sentences=[text])

        async def serve() -> None:
            await asyncio.gather(*(client() for _ in range(self._clients)))

        started_s = time.process_time()
        self._loop.run_until_complete(serve())
        return time.process_time() - started_s

    def close(self) -> None:
        """End its threads."""
        self._loop.run_until_complete(self._engine.astop())
        self._loop.close()
