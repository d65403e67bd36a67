"""A whole server that starts in seconds: a small corpus, the real MiniLM, a random tiny Llama.

The model's words are noise, but the same noise every time: what is tested is everything around
them.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.support.inline_engines import inline_engines
from benchmarks.support.tiny_models import tiny_model
from heddle.app.index_paths import index_paths

CONTEXT_TOKENS_MAX = 2048
CHAT_TEMPLATE = (
    "<|bos|>{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SPECIAL = ("<|pad|>", "<|bos|>", "<|end|>", "<|user|>", "<|assistant|>")
KEEPERS = ("Ada", "Bertil", "Clara", "Dora", "Emil", "Frida", "Gustav", "Hanna", "Ivar", "Jonna")
DOCUMENTS = {
    f"lighthouse-{number}": (
        f"# The lighthouse of Rock {number}\n"
        f"The lighthouse on Rock {number} was built in {1800 + 7 * number} by the harbour board. "
        f"Its keeper is {keeper}, who lights the lamp at dusk and writes the weather down.\n"
    )
    for number, keeper in enumerate(KEEPERS, start=1)
}


def write_documents(folder: Path) -> Path:
    """Write the corpus's Markdown files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in DOCUMENTS.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def index_documents(paths: list[Path], into: Path, *, prune: bool = False) -> Path:
    """Index files with the packaged MiniLM, in this process: a lane would first load torch."""
    with inline_engines():
        index_paths(
            paths, into, prune=prune, on_documents=lambda _: None, on_vectors=lambda _: None
        )
    return into


def write_model(
    folder: Path, change: Callable[[dict], None] | None = None, **sizes: object
) -> Path:
    """Write a tiny Llama with a byte-level BPE tokenizer and a chat template.

    `change` may alter config.json, to make a model directory that has to be refused; `sizes`
    make it less tiny.
    """
    tokenizer = _train_tokenizer()
    model = tiny_model(
        "llama",
        vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=CONTEXT_TOKENS_MAX,
        pad_token_id=tokenizer.token_to_id("<|pad|>"),
        bos_token_id=tokenizer.token_to_id("<|bos|>"),
        eos_token_id=tokenizer.token_to_id("<|end|>"),
        **sizes,
    )
    with torch.no_grad():  # a generation always gets all its tokens
        model.lm_head.weight[tokenizer.token_to_id("<|end|>")] = 0.0
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    if change is not None:
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        change(config)
        path.write_text(json.dumps(config), encoding="utf-8")
    return folder


def _train_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(DOCUMENTS.values(), trainer)
    return tokenizer
