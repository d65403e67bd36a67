"""The adapter that ships: small, of the list that its card names, and better than no training."""

import pytest
from safetensors import safe_open

from heddle.app.models.adapted import ADAPTER

if not ADAPTER.is_file():
    pytest.skip("no adapter has been trained here (make multihop)", allow_module_level=True)


def test_the_card_names_the_list_it_was_trained_on():
    card = ADAPTER.with_suffix(".md").read_text()
    assert ADAPTER.stat().st_size < 2_000_000
    with safe_open(ADAPTER, "numpy") as file:
        about = file.metadata()
    assert about["digest"] in card
    assert float(about["loss"]) < 2.0
    assert float(about["exact"]) > 0.1
