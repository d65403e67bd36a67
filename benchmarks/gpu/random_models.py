"""Directories of models with random weights, and the tokenizer of all of them.

A machine with a GPU may have neither a network nor Heddle's own models. What is timed doesn't
depend on the weights.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BertConfig, BertModel

from benchmarks.support.data import made_from
from benchmarks.support.random_llama import VOCABULARY, Shape, random_llama
from heddle.demo.corpus import demo_documents

BERT_LARGE: Final[Mapping[str, int]] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
MINILM: Final[Mapping[str, int]] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
TINY_ENCODER: Final[Mapping[str, int]] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
READER_PROMPTS: Final = (
    Path(__file__).resolve().parents[2] / "models/reader/heddle_reader/model/heddle_prompts.json"
)
SPECIAL: Final = ("<pad>", "<bos>", "<end>")
WEIGHTS: Final = "model.safetensors"


def encoder_directory(sizes: Mapping[str, int]) -> Path:
    """Return an encoder's directory, made first where it is missing."""
    folder = made_from("random-encoder", {**sizes, "vocabulary": VOCABULARY})
    if not (folder / WEIGHTS).is_file():
        torch.manual_seed(0)
        _tokenizer().save(str(folder / "tokenizer.json"))
        config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=512, **sizes)
        BertModel(config).save_pretrained(folder)
    return folder


def decoder_directory(shape: Shape, context_tokens_max: int, dtype: torch.dtype) -> Path:
    """Return a Llama's directory, made first where it is missing (2.4 GB for 1.2 billion)."""
    made = {**asdict(shape), "context": context_tokens_max, "dtype": str(dtype)}
    folder = made_from("random-decoder", made)
    if not (folder / WEIGHTS).is_file():
        _tokenizer().save(str(folder / "tokenizer.json"))
        model = random_llama(shape, 0, context_tokens_max).to(dtype)
        model.config.eos_token_id = SPECIAL.index("<end>")
        model.generation_config.eos_token_id = model.config.eos_token_id
        with torch.no_grad():  # a generation gets all of its tokens
            model.lm_head.weight[model.config.eos_token_id] = 0.0
        shutil.copy(READER_PROMPTS, folder)  # those that the contenders' programs fill, too
        model.save_pretrained(folder)
    return folder


def _tokenizer() -> Tokenizer:
    """Return byte-level BPE, learned from the demo's corpus; its tokens are below VOCABULARY."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((document.text for document in demo_documents()), trainer)
    return tokenizer
