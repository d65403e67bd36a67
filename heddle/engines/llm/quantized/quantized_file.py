"""The file of a model's weights on their grid, made once and kept in the cache. (ADR 47)"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from heddle.core.cache import cache_directory, locked
from heddle.core.errors import ConfigError
from heddle.engines.llm.model.fused_layers import fuse_layers
from heddle.engines.llm.model.gate import fingerprint
from heddle.engines.llm.model.grid import GROUP, Grid, round_to_grid
from heddle.engines.llm.model.grid_linear import GridLinear
from heddle.engines.llm.model.loading import load_model
from heddle.engines.llm.quantized.grid_file import CODES, GRID_FILE, LOWS, SCALES
from heddle.engines.llm.quantized.panels import GROUP_BYTES, SIDE_BY_SIDE, Panels
from heddle.engines.llm.quantized.weights_file import Part, open_weights, write_weights

FOLDER: Final = "weights"
LAYOUT: Final = "int8 groups of 32, first layout"  # another one makes other files and other KV
EMBEDDING: Final = "model.embed_tokens"
HEAD: Final = "lm_head"
PANELS: Final = ".panels"  # behind a layer's name
BIAS: Final = ".bias"
log = logging.getLogger(__name__)


def quantized_fingerprint(model_dir: Path, dtype: str) -> str:
    """Return the name of a model with these weights, in this number type, that no other has.

    Raises: ConfigError: as `gate.fingerprint`.
    """
    return fingerprint(model_dir, f"{dtype}, {LAYOUT}", ("*.safetensors", GRID_FILE))


def quantized_weights(
    model_dir: Path,
    config: Any,  # noqa: ANN401 - transformers' class
    *,
    is_fused: bool,
) -> Mapping[str, Tensor]:
    """Return a model's weights from the cache; they are put there now if need be.

    Panels stand under a layer's name and `PANELS`, the rest under its own names in float32.

    Args:
        model_dir: where its files are.
        config: transformers' configuration of it.
        is_fused: whether its layers are fused.
    Raises: ConfigError: the model can't be loaded or lies on no grid, or the cache takes no file.
    """
    key = f"{quantized_fingerprint(model_dir, 'any')}, {is_fused}".encode()
    try:
        path = cache_directory(FOLDER) / f"{hashlib.sha256(key).hexdigest()[:24]}.safetensors"
        with locked(path.with_suffix(".lock")):
            found = open_weights(path)
            if found is None:
                log.info("weights are brought onto a grid of 8 bits, once: %s", path)
                write_weights(path, _parts(model_dir, config, is_fused=is_fused))
                found = open_weights(path)
    except OSError as error:
        raise ConfigError(
            f"weights is 'int8', which keeps them in the cache; it can't be written: {error}; "
            "set HEDDLE_CACHE to a folder with room"
        ) from error
    assert found is not None, "what was written can be opened"
    return found


def put_on_grids(model: nn.Module, own: Mapping[str, Grid], kept: frozenset[str]) -> None:
    """Replace every linear layer by one on its grid.

    Args:
        model: not fused yet.
        own: grids that are known, by the layer's name; others are rounded to one.
        kept: names of layers that stay as they are.
    Raises: ConfigError: a layer lies on no grid.
    Mutates: the model.
    """
    for name, module in list(model.named_modules()):
        if type(module) is not nn.Linear or name in kept:
            continue
        parent, _, child = name.rpartition(".")
        grid = own.get(name) or round_to_grid(module.weight, name)
        bias = None if module.bias is None else module.bias.detach().float()
        setattr(model.get_submodule(parent), child, GridLinear(grid, bias))


def own_grids(model_dir: Path) -> Mapping[str, Grid]:
    """Return the grids that a model's directory brings, by the layers' names.

    Raises: ConfigError: its file is damaged.
    """
    path = model_dir / GRID_FILE
    if not path.exists():
        return {}
    try:
        tensors = load_file(path)
        names = [name.removesuffix(CODES) for name in tensors if name.endswith(CODES)]
        return {
            name: Grid(*(tensors[name + part] for part in (CODES, SCALES, LOWS))) for name in names
        }
    except (SafetensorError, KeyError) as error:
        raise ConfigError(f"model: {path} can't be read: {error}; make the model anew") from error


def _parts(
    model_dir: Path,
    config: Any,  # noqa: ANN401 - transformers' class
    *,
    is_fused: bool,
) -> Iterator[Part]:
    own = own_grids(model_dir)
    model = load_model(model_dir, config, "auto")
    is_tied = bool(config.tie_word_embeddings)
    put_on_grids(model, own, frozenset([HEAD] if is_tied else []))
    if is_fused:
        fuse_layers(model)
    rest = dict(model.named_parameters())
    weight = rest.pop(f"{EMBEDDING}.weight")
    rest.pop(f"{HEAD}.weight", None)
    yield _panels(EMBEDDING, own.get(EMBEDDING) or round_to_grid(weight, EMBEDDING))
    for name, module in model.named_modules():
        if isinstance(module, GridLinear):
            yield _panels(name, module.grid)
    for name, parameter in rest.items():
        yield Part.of(name, parameter.detach().float())


def _panels(name: str, grid: Grid) -> Part:
    shape = (-(-grid.outputs // SIDE_BY_SIDE), grid.inputs // GROUP, GROUP_BYTES)
    return Part(name + PANELS, torch.uint8, shape, lambda: Panels.of(grid).data)
