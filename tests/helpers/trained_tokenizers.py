"""Tokenizers of each family that models use, trained on a few lines."""

import json

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.trainers import BpeTrainer, UnigramTrainer

CORPUS = [
    "The harbour of Aldermouth was rebuilt in 1911, and its light still turns. a b c",
    "User: what is it? Assistant: ## Title\n\nQuestion: [INST] [/INST] <|user|> <|end|>",
    "Zürich, naïve café, 東京の天気 and  two spaces\n\nlines\tit's",
]
SPECIALS = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>"]
GPT2_SPLIT = r"'s| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\n+|\s+(?!\S)|\s+"
QWEN_SPLIT = r"'s|\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"


def train(family: str) -> Tokenizer:
    if family in ("gpt2", "gpt2_prefix_space", "qwen", "hidden_line_space"):
        tokenizer = Tokenizer(models.BPE())
        if family == "qwen":
            tokenizer.normalizer = normalizers.NFC()
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
        else:
            prefix = family == "gpt2_prefix_space"
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        tokenizer.decoder = decoders.ByteLevel()
        if family == "hidden_line_space":  # a line starts with a space that decoding removes
            tokenizer.normalizer = normalizers.Sequence(
                [
                    normalizers.Prepend(" "),
                    normalizers.Replace("\n", "\n "),
                    normalizers.Replace(Regex(r"(?<=\n) (?=\n|\z)|\A (?=\n)"), ""),
                ]
            )
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(GPT2_SPLIT), "isolated"),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
            tokenizer.decoder = decoders.Sequence(
                [decoders.ByteLevel(), decoders.Replace(Regex(r"(?:\A|(?<=\n)) "), "")]
            )
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
        tokenizer.add_special_tokens(SPECIALS)
    elif family == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
        trainer = UnigramTrainer(
            vocab_size=150,
            special_tokens=["<unk>", *SPECIALS],
            unk_token="<unk>",
            show_progress=False,
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
        strip = [decoders.Strip(" ", 1, 0)] if family != "metaspace_never" else []
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
        )
        if family == "llama2_legacy":
            tokenizer.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            )
        else:
            scheme = family.removeprefix("metaspace_")
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
        bytes_ = [f"<0x{i:02X}>" for i in range(256)]
        trainer = BpeTrainer(
            vocab_size=420,
            limit_alphabet=60,
            special_tokens=["<unk>", *SPECIALS, *bytes_],
            show_progress=False,
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
        spec = json.loads(tokenizer.to_str())
        spec["added_tokens"] = [t for t in spec["added_tokens"] if "<0x" not in t["content"]]
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    bos = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", bos), ("</s>", bos + 1)]
    )
    return tokenizer
