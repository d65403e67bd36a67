"""The files of a model: their directory, their size, and a fingerprint."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.dtypes import WHOLE
from heddle.core.errors import InputError
from heddle.encoder.encoder_directory import EncoderDirectory, weights_digest
from heddle.encoder.weight_files import weight_files

_OF_A_VOCABULARY: Final = ("embed", "lm_head")  # in the names of tensors
_MATRIX: Final = 2  # dimensions


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on this machine.

    Args:
        directory: where its files lie.
        weight_bytes: size of the weight files.
        fingerprint: the model's name with a digest of its configuration and first weights. Two
            models of one name differ in it, and one model with other weights.
        weights: how they are kept in memory: `WHOLE` or `INT8`.
    """

    directory: Path
    weight_bytes: int
    fingerprint: str
    weights: str = WHOLE

    @property
    def name(self) -> str:
        """The directory's name, by which a corpus records the model of its primed chunks."""
        return self.directory.name

    @property
    def loaded_bytes_max(self) -> int:
        """Memory of the weights at the worst: float32, or 9 bits a weight, of bfloat16 files."""
        return 2 * self.weight_bytes if self.weights == WHOLE else 9 * self.weight_bytes // 16


def generator_files(directory: Path, weights: str = WHOLE) -> ModelFiles:
    """Return the files of an LLM.

    Args:
        directory: where they lie.
        weights: how the weights are kept in memory.

    Raises:
        InputError: the directory holds no safetensors.
    """
    size = weight_bytes(directory)
    name = f"{directory.name}-{weights_digest(directory)}"
    return ModelFiles(directory, size, name if weights == WHOLE else f"{name}-{weights}", weights)


def embedder_files(encoder: EncoderDirectory) -> ModelFiles:
    """Return the files of an embedder; the fingerprint is the name that a corpus records."""
    return ModelFiles(encoder.path, weight_bytes(encoder.path), encoder.name)


def weight_bytes(directory: Path) -> int:
    """Return the size of a directory's weight files.

    Raises:
        ConfigError: the list of its parts can't be read.
        InputError: it holds no safetensors.
    """
    sizes = [file.stat().st_size for file in weight_files(directory)]
    if not sizes:
        raise InputError(
            f"model {str(directory)!r} holds no .safetensors; Heddle loads no other weights: "
            "save the model again with save_pretrained(safe_serialization=True)"
        )
    return sum(sizes)


def layer_parameters(directory: Path) -> int:
    """Return how many weights of a model each token is multiplied with: without its vocabulary.

    Of a model with experts all of them count, so its work is overestimated.

    Raises:
        InputError: a file with weights is damaged.
    """
    from safetensors import SafetensorError, safe_open

    total = 0
    for file in weight_files(directory):
        try:
            with safe_open(file, framework="numpy") as tensors:
                shapes = {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118 - it is no mapping
        except SafetensorError as error:
            raise InputError(f"{file} can't be read: {error}; fetch the model again") from None
        total += sum(
            math.prod(shape)
            for name, shape in shapes.items()
            if len(shape) >= _MATRIX and not any(word in name for word in _OF_A_VOCABULARY)
        )
    return total
