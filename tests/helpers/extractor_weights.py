"""The extractor's weights as they lie in the checkout."""

from pathlib import Path

import pytest

EXTRACTOR = Path(__file__).parents[2] / "models" / "extractor" / "heddle_extractor" / "model"
needs_weights = pytest.mark.skipif(
    not (EXTRACTOR / "config.json").is_file(), reason="the extractor's weights are not here"
)
