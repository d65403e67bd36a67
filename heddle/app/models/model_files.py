"""The files of a model: their directory, their size, and a fingerprint."""

from dataclasses import dataclass
from pathlib import Path

from heddle.core.errors import InputError
from heddle.encoder.encoder_directory import EncoderDirectory, weights_digest


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on this machine.

    Args:
        directory: where its files lie.
        weight_bytes: size of the weight files.
        fingerprint: the model's name with a digest of its configuration and first weights. Two
            models of one name differ in it.
    """

    directory: Path
    weight_bytes: int
    fingerprint: str

    @property
    def name(self) -> str:
        """The directory's name, by which a corpus records the model of its primed chunks."""
        return self.directory.name

    @property
    def loaded_bytes_max(self) -> int:
        """Memory of the weights at the worst: float32 of bfloat16 files."""
        return 2 * self.weight_bytes


def generator_files(directory: Path) -> ModelFiles:
    """Return the files of an LLM.

    Raises:
        InputError: the directory holds no safetensors.
    """
    size = weight_bytes(directory)
    return ModelFiles(directory, size, f"{directory.name}-{weights_digest(directory)}")


def embedder_files(encoder: EncoderDirectory) -> ModelFiles:
    """Return the files of an embedder; the fingerprint is the name that a corpus records."""
    return ModelFiles(encoder.path, weight_bytes(encoder.path), encoder.name)


def weight_bytes(directory: Path) -> int:
    """Return the size of a directory's weight files.

    Raises:
        InputError: it holds no safetensors.
    """
    sizes = [file.stat().st_size for file in directory.glob("*.safetensors")]
    if not sizes:
        raise InputError(
            f"model {str(directory)!r} holds no .safetensors; Heddle loads no other weights: "
            "save the model again with save_pretrained(safe_serialization=True)"
        )
    return sum(sizes)
