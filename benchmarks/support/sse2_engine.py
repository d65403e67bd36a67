"""An embedding engine that multiplies matrices as a CPU of twenty years ago did."""

import os

from heddle.core.errors import InputError
from heddle.engines.embedding.build import EmbeddingSettings, build_engine
from heddle.engines.embedding.engine import EmbeddingEngine


def build_sse2_engine(name: str, epoch: int, settings: EmbeddingSettings) -> EmbeddingEngine:
    """Return an engine whose matrix products use SSE2 only: four numbers at once, none fused.

    Mutates: the environment of its process, where MKL reads it before its first product.

    Raises:
        InputError: this torch multiplies with another library.
    """
    import torch  # late, as in the engine's own factory

    if not torch.backends.mkl.is_available():
        raise InputError(
            "the slow lane is an old core by way of MKL, which this torch doesn't have; run this "
            "on a CPU with bfloat16 in hardware, or with a torch for x86"
        )
    os.environ["MKL_CBWR"] = "COMPATIBLE"
    return build_engine(name, epoch, settings)
