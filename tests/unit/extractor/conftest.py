"""Makes the training code beside the extractor's package importable; builds small things."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "models" / "extractor"))

from extractor_training.base_encoder import base_directory
from extractor_training.windows import load_tokenizer


@pytest.fixture(scope="session")
def tokenizer():
    return load_tokenizer(base_directory())
