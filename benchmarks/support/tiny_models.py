"""Random-weight models of the eight families, small enough for a unit test and a benchmark.

Weights with a wide spread and random norm gains: near-uniform attention would hide a wrong mask
or a wrong rotation.
"""

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel

FAMILIES = (
    "llama",
    "llama3-scaled",
    "mistral",
    "qwen2",
    "qwen3",
    "qwen3-yarn",
    "glm4",
    "phi3",
)
VOCABULARY = 500
EOS = 2
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 4.0,
    "original_max_position_embeddings": 256,
}
_CONFIGS: dict[str, tuple[type[PretrainedConfig], dict[str, object]]] = {
    "llama": (transformers.LlamaConfig, {}),
    "llama3-scaled": (transformers.LlamaConfig, {"rope_parameters": _LLAMA3}),
    "mistral": (transformers.MistralConfig, {"sliding_window": None}),
    "qwen2": (transformers.Qwen2Config, {}),
    "qwen3": (transformers.Qwen3Config, {"head_dim": 16}),
    "qwen3-yarn": (transformers.Qwen3Config, {"head_dim": 16, "rope_parameters": _YARN}),
    "glm4": (transformers.Glm4Config, {"head_dim": 16}),
    "phi3": (transformers.Phi3Config, {}),
}


def tiny_config(family: str, **overrides: object) -> PretrainedConfig:
    """Return the configuration of a family's tiny model."""
    config_class, own = _CONFIGS[family]
    sizes: dict[str, object] = {
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 1024,
        "initializer_range": 0.08,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": EOS,
    }
    return config_class(**{**sizes, **own, **overrides})


def tiny_model(family: str, seed: int = 0, **overrides: object) -> PreTrainedModel:
    """Return a family's tiny model in fp32, its weights given by the seed."""
    config = tiny_config(family, **overrides)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def prompt(length: int, seed: int) -> tuple[int, ...]:
    """Return random token ids without special tokens."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(3, VOCABULARY, (length,), generator=generator).tolist())
