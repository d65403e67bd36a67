import pytest
import torch
from extractor_training import export, export_mean
from extractor_training.base_encoder import untrained_model

from tests.helpers.small_extractor import small_model


@pytest.fixture(scope="module")
def model():
    model = untrained_model(seed=4)
    with torch.no_grad():
        model.encoder.layer[2].output.dense.weight += 0.01
    return model


def test_what_is_exported_comes_back_in_half_precision(model, tmp_path):
    export.export_extractor(model, tmp_path / "best", {"dev_f1": 0.5})
    again = export.load_extractor(tmp_path / "best")
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight, atol=1e-3, rtol=1e-3)
    assert export.read_config(tmp_path / "best")["measures"] == {"dev_f1": 0.5}


def test_the_delta_is_small_enough_to_ship(model, tmp_path):
    export.export_extractor(model, tmp_path / "best", {})
    sizes = [file.stat().st_size for file in (tmp_path / "best").glob("*.safetensors")]
    assert max(sizes) < 15_000_000
    assert sum(sizes) < 25_000_000


def test_an_export_replaces_the_one_before(model, tmp_path):
    for step in (1.0, 2.0):
        export.export_extractor(model, tmp_path / "best", {"step": step})
    assert export.read_config(tmp_path / "best")["measures"] == {"step": 2.0}
    assert [folder.name for folder in tmp_path.iterdir()] == ["best"]


def test_weights_of_another_model_are_refused(tmp_path):
    export.export_extractor(small_model(), tmp_path / "best", {})
    with pytest.raises(ValueError, match="another model"):
        export.load_extractor(tmp_path / "best")


def test_the_mean_lies_between_two_exports(model, tmp_path):
    other = untrained_model(seed=4)
    export.export_extractor(model, tmp_path / "a", {})
    export.export_extractor(other, tmp_path / "b", {})
    mean = export_mean.mean_of([tmp_path / "a", tmp_path / "b"]).encoder.layer[2]
    changed, plain = (one.encoder.layer[2].output.dense.weight for one in (model, other))
    torch.testing.assert_close(
        mean.output.dense.weight, (changed + plain) / 2, atol=1e-3, rtol=1e-3
    )
