"""Write a trained reader as an ordinary Hugging Face directory."""

import json
import os
import shutil
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig, LlamaForCausalLM

from .prompts import BOS, CHAT_TEMPLATE, EOS, PAD

MAX_SHARD = "14MB"


def _tokenizer_config(max_positions: int) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "model_max_length": max_positions,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE,
    }


def export_reader(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path, card: str) -> None:
    """Replace `folder` by config, tokenizer, card and bf16 weights in small shards, in one rename.

    card: what stands in MODEL_CARD.md.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    config = model.config
    copy = LlamaForCausalLM(config).to(torch.bfloat16)
    copy.load_state_dict({k: v.to("cpu", torch.bfloat16) for k, v in model.state_dict().items()})
    copy.generation_config = GenerationConfig(
        do_sample=False,
        max_new_tokens=64,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    )
    copy.save_pretrained(partial, max_shard_size=MAX_SHARD)
    tokenizer.save(str(partial / "tokenizer.json"))
    settings = json.dumps(_tokenizer_config(config.max_position_embeddings), indent=2)
    (partial / "tokenizer_config.json").write_text(settings + "\n")
    (partial / "MODEL_CARD.md").write_text(card)
    for file in partial.iterdir():
        file.chmod(0o644)  # weights are written for their owner only
    retired = folder.with_name(folder.name + ".old")
    shutil.rmtree(retired, ignore_errors=True)
    if folder.exists():
        os.replace(folder, retired)
    os.replace(partial, folder)
    shutil.rmtree(retired, ignore_errors=True)
