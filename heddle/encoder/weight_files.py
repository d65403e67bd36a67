"""Which safetensors of a model's directory hold its weights."""

from pathlib import Path
from typing import Final

from heddle.encoder.encoder_directory import read_json

WHOLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"


def weight_files(directory: Path) -> list[Path]:
    """Return the files that transformers loads, by name; [] = there is none.

    Some directories hold the same weights once more, in another layout or another number type.

    Raises:
        ConfigError: the list of a model's parts can't be read.
    """
    whole = directory / WHOLE
    if whole.is_file():
        return [whole]
    parts = read_json(directory / INDEX).get("weight_map")
    if isinstance(parts, dict):
        named = {directory / str(name) for name in parts.values()}
        if found := sorted(file for file in named if file.is_file()):
            return found
    return sorted(directory.glob("*.safetensors"))
