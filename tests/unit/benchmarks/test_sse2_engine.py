import os

import pytest
import torch

from benchmarks.support.sse2_engine import build_sse2_engine
from heddle.core.errors import InputError
from heddle.engines.embedding.build import EmbeddingSettings


def test_a_torch_that_multiplies_with_another_library_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MKL_CBWR", raising=False)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    with pytest.raises(InputError, match="by way of MKL, which this torch doesn't have"):
        build_sse2_engine("slow", 1, EmbeddingSettings())
    assert "MKL_CBWR" not in os.environ
