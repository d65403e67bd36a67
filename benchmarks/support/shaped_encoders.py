"""Encoders with the sizes of published ones and random weights: only their speed means much."""

import shutil
from pathlib import Path
from typing import Any, Final

from transformers import (
    BertConfig,
    BertModel,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from benchmarks.support.data import made_from
from heddle.engines.embedding.build import default_model_dir

LARGE: Final[dict[str, Any]] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    # That of MiniLM, whose tokenizer they get. bge's own has 21,128 entries and jina's 250,002:
    # that takes memory, and no time.
    "vocab_size": 30522,
}
JINA_POSITIONS: Final = 8194  # 8,192 tokens, and two places that XLM-RoBERTa leaves empty


def bge() -> Path:
    """Return the directory of bge-large's shape, a BERT-large; made if missing (1.3 GB)."""
    folder = made_from("bert-large", LARGE)
    if _is_missing(folder):
        _save(BertModel(BertConfig(**LARGE)), folder)
    return folder


def jina() -> Path:
    """Return the directory of jina-embeddings-v3's shape, an XLM-RoBERTa-large of 8,192 tokens.

    Made first where it is missing (1.4 GB). Deviates: positions are learnt, not rotated.
    """
    sizes = {**LARGE, "max_position_embeddings": JINA_POSITIONS, "type_vocab_size": 1}
    folder = made_from("xlm-roberta-large", sizes)
    if _is_missing(folder):
        _save(XLMRobertaModel(XLMRobertaConfig(**sizes)), folder)
    return folder


def _is_missing(folder: Path) -> bool:
    return not (folder / "model.safetensors").is_file()


def _save(model: PreTrainedModel, folder: Path) -> None:
    print(f"writing an encoder of random weights into {folder.name} (not measured) ...")
    shutil.copy(default_model_dir() / "tokenizer.json", folder)
    model.save_pretrained(folder)
