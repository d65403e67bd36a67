"""The tiny models of the benchmarks, under the name that tests use."""

from benchmarks.support.tiny_models import (
    EOS,
    FAMILIES,
    VOCABULARY,
    prompt,
    tiny_config,
    tiny_model,
)

__all__ = ["EOS", "FAMILIES", "VOCABULARY", "prompt", "tiny_config", "tiny_model"]
