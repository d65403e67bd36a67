"""The packaged MiniLM, from which training starts."""

from pathlib import Path

from safetensors.torch import load_file

from heddle.engines.embedding.build import default_model_dir

from .span_model import Shape, SpanModel, new_model


def base_directory() -> Path:
    """The packaged encoder's directory: tokenizer and weights."""
    return default_model_dir()


def untrained_model(seed: int) -> SpanModel:
    """The packaged encoder with a random span head; its embeddings are frozen."""
    model = new_model(Shape(), seed)
    model.load_state_dict(
        {
            name: weight
            for name, weight in load_file(base_directory() / "model.safetensors").items()
            if not name.startswith("pooler.") and name != "embeddings.position_ids"
        },
        strict=False,  # the head is new
    )
    model.freeze_embeddings()
    return model
