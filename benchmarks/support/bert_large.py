"""An encoder with BERT-large's sizes and random weights: only its speed means something."""

import shutil
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from benchmarks.support.data import made_from
from heddle.engines.embedding.build import default_model_dir

SIZES = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 30522,
}


def bert_large() -> Path:
    """Return its directory, made first where it is missing (1.3 GB)."""
    folder = made_from("bert-large", SIZES)
    if not (folder / "model.safetensors").is_file():
        print("writing an encoder of BERT-large's shape (not measured) ...")
        torch.manual_seed(0)
        shutil.copy(default_model_dir() / "tokenizer.json", folder)
        BertModel(BertConfig(**SIZES)).save_pretrained(folder)
    return folder
