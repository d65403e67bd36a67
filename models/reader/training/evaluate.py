"""Measure a reader on `reader-notes`: greedy answers, exact match by kind.

python -m training.evaluate [--model DIR] [--questions 1000] [--json FILE]
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerBase

from .evaluation_set import SEED, EvaluationItem, evaluation_items
from .questions import Kind


def reply(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, prompt: str, max_tokens: int = 24
) -> str:
    """The greedy reply to one user message."""
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
    )
    ids = tokenizer(chat, return_tensors="pt", add_special_tokens=False).input_ids
    with torch.no_grad():
        output = model.generate(
            ids.to(model.device),
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=max_tokens,
        )
    return str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


def accuracy_by_kind(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, items: Iterable[EvaluationItem]
) -> dict[str, float]:
    """Share of replies that equal the gold answer, by kind of question."""
    right: dict[Kind, list[bool]] = {}
    for item in items:
        answer = reply(model, tokenizer, item.prompt())
        right.setdefault(item.kind, []).append(answer == item.answer)
    return {kind.value: sum(hits) / len(hits) for kind, hits in sorted(right.items())}


def main() -> None:
    packaged = Path(__file__).parents[1] / "heddle_reader" / "model"
    parser = argparse.ArgumentParser(description="Accuracy by kind on reader-notes.")
    parser.add_argument("--model", type=Path, default=packaged)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", type=Path, help="write the shares (0-1) there")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = LlamaForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    shares = accuracy_by_kind(model, tokenizer, evaluation_items(args.questions, args.seed))
    for kind, share in shares.items():
        print(f"{kind:<14}{share:.3f}")
    if args.json is not None:
        args.json.write_text(json.dumps(shares, indent=2) + "\n")


if __name__ == "__main__":
    main()
