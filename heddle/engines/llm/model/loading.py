"""An LLM from the files of its Hugging Face directory, by transformers."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from heddle.core.errors import ConfigError
from heddle.engines.llm.attention.context import ATTENTION_NAME


def load_model(
    model_dir: Path,
    config: Any,  # noqa: ANN401 - transformers' class
    dtype: torch.dtype | str,
) -> Any:  # noqa: ANN401 - transformers' class
    """Return the model in evaluation mode; refuse files that lack one of its tensors.

    Args:
        model_dir: where they are.
        config: transformers' configuration of it.
        dtype: the number type of its weights; "auto": that of the files.
    Raises: ConfigError: it can't be loaded.
    """
    logging.disable_progress_bar()
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            model_dir,
            config=config,
            dtype=dtype,
            attn_implementation=ATTENTION_NAME,
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"model: {model_dir} can't be loaded: {error}") from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigError(
            f"model: {model_dir} lacks {len(missing)} weights, {missing[0]} first; "
            "copy all of its safetensors files"
        )
    return model.eval()
