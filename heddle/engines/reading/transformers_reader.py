"""Other people's models: a question answering head, or a cross-encoder, run by transformers."""

import inspect
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification
from transformers.utils.logging import disable_progress_bar

from heddle.core.errors import ConfigError
from heddle.engines.reading.reading_directory import ReaderKind, ReadingDirectory
from heddle.engines.reading.spans import Finding, best_spans
from heddle.engines.reading.windows import Window

MODELS = {
    ReaderKind.SPANS: AutoModelForQuestionAnswering,
    ReaderKind.SCORE: AutoModelForSequenceClassification,
}


class TransformersReader:
    """A model of transformers, its rows padded to the longest of a batch.

    A question answering head knows no answerability. As is usual for SQuAD 2, "no answer" is the
    span of the first token alone, and a quote's score is its own minus that one's. A model that
    was trained without unanswerable questions (SQuAD 1) gives scores that rank quotes, and whose
    zero means little.

    Args:
        model: in evaluation mode.
        kind: its head.
        span_max: the longest span [tokens].
        pad_id: what fills rows up.
    """

    is_padded = True

    def __init__(
        self, model: torch.nn.Module, kind: ReaderKind, span_max: int, pad_id: int = 0
    ) -> None:
        self._model, self._kind = model, kind
        self._span_max, self._pad_id = span_max, pad_id
        takes_types = "token_type_ids" in inspect.signature(model.forward).parameters
        self._has_types = takes_types and getattr(model.config, "type_vocab_size", 0) > 1

    @classmethod
    def load(cls, directory: ReadingDirectory, dtype: torch.dtype, device: torch.device) -> Self:
        """Load weights from safetensors; code of the model's own is never run.

        Raises:
            ConfigError: the directory holds no weights of the head.
        """
        disable_progress_bar()
        model, report = MODELS[directory.kind].from_pretrained(
            directory.path,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        missing = [name for name in report["missing_keys"] if "position_ids" not in name]
        if missing:
            raise ConfigError(
                f"reading model {directory.path} has no weights for {min(missing)}: "
                "save it again after its training"
            )
        pad_id = model.config.pad_token_id or 0
        return cls(model.eval().to(device), directory.kind, directory.sizes.span_max, pad_id)

    @torch.inference_mode()
    def read(self, windows: Sequence[Window]) -> list[Finding]:
        """Return the best span of each window, or only its score."""
        lengths = [len(window.ids) for window in windows]
        ids = torch.full((len(windows), max(lengths)), self._pad_id)
        mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : lengths[row]] = torch.tensor(window.ids)
            mask[row, : lengths[row]] = 1
            types[row, window.second : lengths[row]] = window.passage_type
        rows = {"input_ids": ids, "attention_mask": mask}
        if self._has_types:
            rows["token_type_ids"] = types
        device = next(self._model.parameters()).device
        output = self._model(**{name: tensor.to(device) for name, tensor in rows.items()})
        if self._kind is ReaderKind.SCORE:
            return [Finding(score) for score in output.logits[:, 0].float().tolist()]
        return best_spans(_span_logits(output, mask.bool()), windows, self._span_max)


def _span_logits(output: object, is_token: torch.Tensor) -> NDArray[np.float32]:
    """Return start, end and answerability of each token, without padding [n, 3]."""
    start, end = (getattr(output, f"{side}_logits").float().cpu() for side in ("start", "end"))
    answerable = torch.zeros_like(start)
    answerable[:, 0] = -(start[:, 0] + end[:, 0])
    return torch.stack([start, end, answerable], dim=2)[is_token].numpy()
