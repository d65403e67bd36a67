"""Other people's reading models, tiny and with random weights."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForQuestionAnswering,
    RobertaConfig,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
)

WORDS = [
    "the",
    "a",
    "old",
    "harbour",
    "river",
    "opened",
    "in",
    "1911",
    "by",
    "king",
    "where",
    "when",
    "did",
    "who",
    "lies",
    "at",
    "sea",
    ".",
    "?",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
SIZES = {
    "vocab_size": len(WORDS) + len(SPECIAL),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 66,
    "pad_token_id": 0,
}
HEADS = {
    ("bert", "spans"): (BertConfig, BertForQuestionAnswering),
    ("bert", "score"): (BertConfig, BertForSequenceClassification),
    ("bert", "none"): (BertConfig, BertModel),
    ("roberta", "spans"): (RobertaConfig, RobertaForQuestionAnswering),
    ("roberta", "score"): (RobertaConfig, RobertaForSequenceClassification),
    ("distilbert", "spans"): (DistilBertConfig, DistilBertForQuestionAnswering),
}


def make_reader(folder: Path, family: str, head: str, labels: int | None = None) -> Path:
    """Save a model that reads at most 64 tokens; weights are spread, so that scores differ."""
    config_class, model_class = HEADS[family, head]
    sizes = dict(SIZES)
    if family == "roberta":
        sizes |= {"type_vocab_size": 1, "max_position_embeddings": 65}
    if family == "distilbert":
        sizes = {"vocab_size": sizes["vocab_size"], "dim": 16, "n_layers": 2, "n_heads": 2}
        sizes |= {"hidden_dim": 32, "max_position_embeddings": 64, "pad_token_id": 0}
    count = labels or (1 if head == "score" else 2)
    torch.manual_seed(0)
    model = model_class(config_class(**sizes, num_labels=count))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    vocabulary = {word: place for place, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    between = "[SEP] [SEP]" if family == "roberta" else "[SEP]"
    second = "" if family == "roberta" else ":1"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A {between} $B{second} [SEP]{second}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64}))
    return folder
