import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[3] / "models" / "extractor"
sys.path.insert(0, str(HOME))

import heddle_extractor  # noqa: E402

try:
    FOLDER = heddle_extractor.model_dir()
except FileNotFoundError:
    pytest.skip("no extractor has been trained here (make extractor)", allow_module_level=True)

from extractor_training.export import load_extractor, read_config  # noqa: E402


def test_the_weights_fit_the_packaged_encoder():
    load_extractor(FOLDER)


def test_the_package_is_small():
    sizes = [file.stat().st_size for file in FOLDER.glob("*.safetensors")]
    assert max(sizes) < 15_000_000
    assert sum(sizes) < 25_000_000


def test_the_config_holds_the_threshold_and_the_measures():
    config = read_config(FOLDER)
    assert config["measures"]["dev_f1"] > 0.5
    assert isinstance(config["threshold"], float)


def test_the_card_names_data_licences_and_the_list():
    card = (HOME / "heddle_extractor" / "MODEL_CARD.md").read_text()
    for part in ("SQuADShifts", "CC BY 4.0", "Natural Questions", "CC BY-SA 3.0", "MuSiQue"):
        assert part in card
