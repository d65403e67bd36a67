"""From an embedder's name to what its directory says of it."""

import json
from pathlib import Path
from typing import Final

from heddle.app.models.model_source import model_directory
from heddle.app.models.remote_name import is_remote
from heddle.core.errors import ConfigError
from heddle.encoder.encoder_directory import EncoderDirectory

# How architectures end that write text: their token states are no vectors of a text's meaning.
GENERATES: Final = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")


def open_embedder(embedder: str | Path | None) -> EncoderDirectory:
    """Find an embedder and read its directory; None is the packaged MiniLM.

    Raises:
        InputError: there is no such model.
        ConfigError: the embedding engine can't run it, or it is made to generate text.
    """
    if embedder is None:
        return EncoderDirectory.open(None)
    if is_remote(embedder):
        raise ConfigError(f"embedder {str(embedder)!r} runs on another server: name a directory")
    encoder = EncoderDirectory.open(str(model_directory(embedder)))
    _refuse_generator(str(embedder), encoder.path)
    return encoder


def _refuse_generator(name: str, directory: Path) -> None:
    if (directory / "modules.json").exists():
        return  # sentence-transformers settings: the engine has checked the pooling they name
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    for architecture in config.get("architectures") or ():
        if str(architecture).endswith(GENERATES):
            raise ConfigError(
                f"embedder {name!r} is a language model ({architecture}), not an encoder, and has "
                "no modules.json that names a pooling: give a sentence-transformers or BERT-like "
                "directory, or leave the embedder out for the packaged MiniLM"
            )
