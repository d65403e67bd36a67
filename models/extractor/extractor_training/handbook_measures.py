"""How well a model quotes documentation: the written questions that are held back.

    python -m extractor_training.handbook_measures --model DIR --rows CHECKPOINTS

Each question is asked of its passage and of those that the search finds and that don't answer.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from heddle.core.texts.sentences import sentence_around

from .base_encoder import base_directory
from .export import load_extractor
from .handbook import Asked, is_held, kept_handbook_rows
from .measures import auroc, best_of, quotes
from .span_model import SpanModel
from .windows import load_tokenizer

_OTHERS = 4  # passages beside the right one
_KEPT = (0.95, 0.9, 0.8)  # of the right quotes


def handbook_measures(
    model: SpanModel, tokenizer: Tokenizer, asked: Sequence[Asked]
) -> dict[str, float]:
    """The share of right quotes, and how well the score knows that nothing answers.

    A quote is right if the sentence it stands in holds the answer.
    """
    right, wrong = [], []
    n_answerable = 0
    for row, others in asked:
        passages = [row.passage, *others[:_OTHERS]]
        quote, place = best_of(quotes(model, tokenizer, [(row.question, p) for p in passages]))
        if not row.spans:
            wrong.append(quote.score)
            continue
        n_answerable += 1
        text = passages[place].text
        start = text.find(quote.text)
        first, last = sentence_around(text, start, start + len(quote.text))
        if any(answer in text[first:last] for answer in row.answers):
            right.append(quote.score)
    scores, lost = np.array(right), np.array(wrong)
    measures = {
        "questions": float(len(asked)),
        "right_quotes": len(right) / n_answerable,
        "auroc": auroc(scores, lost),
    }
    for share in _KEPT:
        least = np.quantile(scores, 1 - share)
        measures[f"score_{share:.0%}"] = float(least)
        measures[f"declined_{share:.0%}"] = float((lost < least).mean())
    return measures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True, help="the checkpoints of its training")
    parser.add_argument("--json", type=Path, help="write the measures there")
    args = parser.parse_args()
    os.nice(19)
    torch.set_num_threads(1)
    held = [asked for asked in kept_handbook_rows(args.rows) if is_held(asked[0])]
    model, tokenizer = load_extractor(args.model), load_tokenizer(base_directory())
    measures = handbook_measures(model, tokenizer, held)
    for name, value in measures.items():
        print(f"{name:<20}{value:.4f}")
    if args.json is not None:
        args.json.write_text(json.dumps(measures, indent=2) + "\n")


if __name__ == "__main__":
    main()
