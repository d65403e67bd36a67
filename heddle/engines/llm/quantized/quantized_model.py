"""A model whose weights lie on a grid of 8 bits, ready in a file. (ADR 47)"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GenerationConfig

from heddle.core.errors import ConfigError
from heddle.engines.llm.model.fused_layers import can_fuse, fuse_layers
from heddle.engines.llm.quantized.panels import Panels
from heddle.engines.llm.quantized.quantized_file import (
    BIAS,
    EMBEDDING,
    HEAD,
    PANELS,
    quantized_weights,
)
from heddle.engines.llm.quantized.quantized_linear import QuantizedEmbedding, QuantizedLinear
from heddle.kernels.compiled_kernel import find_row_kernel
from heddle.kernels.quantized_kernel import QuantizedKernel


def load_quantized(
    model_dir: Path,
    config: Any,  # noqa: ANN401 - transformers' class
    dtype: torch.dtype,
    device: torch.device,
) -> Any:  # noqa: ANN401 - transformers' class
    """Return a model in evaluation mode, its layers fused where they can be.

    Args:
        model_dir: where its files are.
        config: transformers' configuration of it.
        dtype: what is computed in beside the products of whole numbers.
        device: a CPU.
    Raises: ConfigError: this device or machine can't, or the model can't be brought onto a grid.
    """
    kernel = _kernel(dtype, device)
    model = _without_weights(config, dtype)
    _take_generation_config(model, model_dir)
    is_fused = can_fuse(model)
    weights = quantized_weights(model_dir, config, is_fused=is_fused)
    if is_fused:
        fuse_layers(model)
    _fill(model, weights, kernel)
    return model.eval()


def weight_count(model: nn.Module) -> int:
    """Return how many weights a model has, on a grid or not."""
    on_grids = sum(
        module.panels.outputs * module.panels.inputs
        for module in model.modules()
        if isinstance(module, QuantizedLinear)
    )
    return on_grids + sum(parameter.numel() for parameter in model.parameters())


def _kernel(dtype: torch.dtype, device: torch.device) -> QuantizedKernel:
    if device.type != "cpu":
        raise ConfigError(
            f"weights is 'int8', which is for CPUs, and the model runs on {device.type}: use "
            "device cpu, or weights full"
        )
    found = find_row_kernel(in_bfloat16=dtype is torch.bfloat16)
    if found.kernel is None:
        lacking = "the CPU has neither AMX nor AVX512-BF16, so use dtype float32 or auto"
        why = found.problem or lacking
        raise ConfigError(f"weights is 'int8', which takes a compiled kernel: {why}")
    return found.kernel.quantized


def _without_weights(config: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401
    """Return a model of which only what depends on no weight is in memory."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    # Its frequencies are computed where it is made.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    empty = torch.empty(0, config.hidden_size, dtype=dtype)
    model.get_submodule(EMBEDDING).weight = nn.Parameter(empty, requires_grad=False)
    return model


def _take_generation_config(model: Any, model_dir: Path) -> None:  # noqa: ANN401
    """Take over what the files say of generations, above all which tokens end one.

    A model that is loaded whole does so, one that is made of its configuration alone doesn't.

    Raises: ConfigError: a field has no possible value.
    Mutates: the model.
    """
    try:
        found = GenerationConfig.from_pretrained(model_dir, local_files_only=True)
    except OSError:  # there is no such file: the model's own configuration holds
        return
    except ValueError as error:
        raise ConfigError(f"model: {model_dir} can't be loaded: {error}") from error
    model.generation_config = found


def _fill(model: Any, weights: Mapping[str, Tensor], kernel: QuantizedKernel) -> None:  # noqa: ANN401
    """Put weights into their places. Mutates: the model."""
    dtype = model.dtype
    embedding = Panels(weights[EMBEDDING + PANELS], model.config.vocab_size)
    model.model.embed_tokens = QuantizedEmbedding(embedding, dtype)
    for name, module in list(model.named_modules()):
        if type(module) is not nn.Linear:
            continue
        is_tied = name == HEAD and model.config.tie_word_embeddings
        data = weights[(EMBEDDING if is_tied else name) + PANELS]
        bias = None if module.bias is None else weights[name + BIAS].to(dtype)
        parent, _, child = name.rpartition(".")
        linear = QuantizedLinear(Panels(data, module.out_features), bias, kernel)
        setattr(model.get_submodule(parent), child, linear)
    for name, parameter in list(model.named_parameters()):
        if parameter.is_meta:
            parent, _, child = name.rpartition(".")
            own = nn.Parameter(weights[name].to(parameter.dtype), requires_grad=False)
            setattr(model.get_submodule(parent), child, own)
    assert not any(buffer.is_meta for buffer in model.buffers()), "all buffers were computed"
