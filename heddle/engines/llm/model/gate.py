"""Which model directories the LLM engine can serve exactly, and why not the others."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from transformers import AutoConfig

from heddle.core.errors import ConfigError

# Architectures whose layers take `position_embeddings` and whose parity is tested.
SUPPORTED = ("llama", "mistral", "qwen2", "qwen3", "glm4", "phi3")
# RoPE kinds whose frequencies do not change with the length of the prompt.
STATIC_ROPE = ("default", "linear", "llama3", "yarn")
_SAMPLE_BYTES = 1024
_SAMPLES = 4  # of each tensor
_LENGTH_BYTES = 8  # in front of a safetensors header
_HEADER_BYTES_MAX = 100 << 20  # safetensors' own limit


def load_config(model_dir: Path) -> Any:  # noqa: ANN401 - transformers' own configuration class
    """Return the configuration of a model directory that can be loaded without remote code.

    Raises: ConfigError: no directory, no config.json, no safetensors, remote code, or a field that
        can't be.
    """
    if not model_dir.is_dir():
        raise ConfigError(f"model: {model_dir} is not a directory")
    path = model_dir / "config.json"
    if not path.is_file():
        raise ConfigError(f"model: {model_dir} has no config.json; name a Hugging Face model dir")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"model: {path} is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"model: {path} is not a JSON object")
    if "auto_map" in raw:
        raise ConfigError(
            f"model: {path} names remote code (auto_map), which Heddle never runs; if transformers "
            f"itself knows {raw.get('model_type', 'the model')}, remove auto_map to use its code"
        )
    if raw.get("model_type") not in SUPPORTED:
        raise ConfigError(
            f"model: {_why_unsupported(raw)}; supported architectures: {', '.join(SUPPORTED)}"
        )
    if not any(model_dir.glob("*.safetensors")):
        raise ConfigError(
            f"model: {model_dir} has no safetensors weights; convert it with "
            "model.save_pretrained(directory)"
        )
    try:
        return AutoConfig.from_pretrained(model_dir, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # it checks each field, and has classes of its own for what is wrong
        why = " ".join(str(error).split())
        raise ConfigError(f"model: transformers doesn't take {path}: {why}") from error


def check_config(config: Any, context_tokens_max: int) -> None:  # noqa: ANN401
    """Refuse what our attention would compute wrongly.

    Args:
        config: a transformers configuration.
        context_tokens_max: most tokens a sequence may have; a sliding window that long or
            longer never slides.

    Raises: ConfigError: the reason, and where there is one, the fix.
    """
    if config.model_type not in SUPPORTED:
        raise ConfigError(
            f"model: architecture {config.model_type} is not supported; "
            f"supported architectures: {', '.join(SUPPORTED)}"
        )
    window = getattr(config, "sliding_window", None)
    if window is not None and window < context_tokens_max:
        raise ConfigError(
            f"model: sliding-window attention of {window} tokens is not supported beyond the "
            f"window, and context_tokens_max is {context_tokens_max}; set it to {window} or less "
            f"(--context-tokens-max {window})"
        )
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, name, None) is not None:
            raise ConfigError(f"model: softcap ({name}) is not supported")
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - ({"full_attention"} if window is None else {"full_attention", "sliding_attention"}):
        raise ConfigError(f"model: layer types {sorted(kinds)} are not all full_attention")
    if getattr(config, "quantization_config", None) is not None:
        raise ConfigError("model: quantised weights are not supported; use the full-precision ones")
    rope = dict(getattr(config, "rope_parameters", None) or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in STATIC_ROPE:
        raise ConfigError(
            f"model: {kind} RoPE is not supported: its frequencies change with the length of the "
            f"prompt, so stored keys would be wrong; supported: {', '.join(STATIC_ROPE)}"
        )


def fingerprint(model_dir: Path, dtype: str, weights: Sequence[str] = ("*.safetensors",)) -> str:
    """Return a digest of the model's configuration, tokenizer, weights and number type.

    Of every tensor some bytes are read, at places that depend on its size alone: all of a small
    one. So a model whose weights were trained on or merged has another digest wherever that was,
    and gigabytes are compared in milliseconds; a few numbers changed by hand may be missed.

    Args:
        model_dir: where its files are.
        dtype: the number type, with what else distinguishes what is computed.
        weights: patterns of the files that hold its weights, all of them in safetensors' format.
    Raises: ConfigError: a file of weights has no safetensors header, or one that names places
        outside of it.
    """
    digest = hashlib.sha256(dtype.encode())
    for path in sorted(model_dir.glob("*.json")):
        content = path.read_bytes()
        digest.update(f"{path.name}:{len(content)}:".encode() + content)
    for path in sorted(path for pattern in weights for path in model_dir.glob(pattern)):
        digest.update(f"{path.name}:{path.stat().st_size}:".encode())
        with path.open("rb") as file:
            for part in _samples(path, file):
                digest.update(part)
    return digest.hexdigest()


def _samples(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield a safetensors file's header, and parts of each of its tensors."""
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    header = file.read(min(length, _HEADER_BYTES_MAX))
    yield header
    try:
        tensors = json.loads(header)
        places = {
            name: tensors[name]["data_offsets"]
            for name in sorted(tensors.keys() - {"__metadata__"})
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"model: {path} has no safetensors header; copy it again") from error
    data_bytes = path.stat().st_size - _LENGTH_BYTES - len(header)
    for name, offsets in places.items():
        start, stop = _checked_span(path, name, offsets, data_bytes)
        last = max(stop - start - _SAMPLE_BYTES, 0)
        for place in sorted({last * number // (_SAMPLES - 1) for number in range(_SAMPLES)}):
            file.seek(_LENGTH_BYTES + len(header) + start + place)
            yield file.read(min(_SAMPLE_BYTES, stop - start))


def _checked_span(path: Path, name: str, offsets: object, data_bytes: int) -> tuple[int, int]:
    """Return where a tensor lies among a file's data [bytes].

    Raises: ConfigError: its offsets aren't two places in the file, in this order.
    """
    match offsets:
        case [int(start), int(stop)] if 0 <= start <= stop <= data_bytes:
            return start, stop
    raise ConfigError(
        f"model: {path} says that tensor {name!r} lies at {offsets!r} of {data_bytes} bytes of "
        "data: the file is cut short or damaged; copy it again"
    )


def _why_unsupported(raw: dict[str, object]) -> str:
    name = raw.get("model_type", "(none)")
    if raw.get("attn_logit_softcapping") or raw.get("final_logit_softcapping"):
        return f"architecture {name} uses softcap, which is not supported"
    if name == "gpt_oss":
        return "architecture gpt_oss uses attention sinks, which are not supported"
    return f"architecture {name} is not supported"
