"""Makes the training code of the multi-hop adapter importable; a tiny model to adapt."""

import sys
from pathlib import Path

import pytest
import torch

MODELS = Path(__file__).parents[3] / "models"
sys.path[:0] = [str(MODELS / "extractor"), str(MODELS / "multihop")]

from tests.helpers.tiny_models import tiny_model  # noqa: E402


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of random weights in half precision, with tied embeddings."""
    folder = tmp_path_factory.mktemp("base") / "tiny"
    tiny_model("llama", tie_word_embeddings=True).to(torch.float16).save_pretrained(folder)
    return folder
