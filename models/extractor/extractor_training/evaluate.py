"""Measure an extractor on the held-back wiki questions.

    python -m extractor_training.evaluate [--model DIR] [--part test] [--questions 1472]

Prints F1, exact match and F1 of the best-scored quarter with the right passage; F1 over the five
passages that BM25 finds; and how well the score knows that none of them answers.
"""

import argparse
import json
import os
import random
from pathlib import Path

import torch

from .base_encoder import base_directory
from .export import load_extractor, read_config, write_config
from .measures import oracle_measures, retrieved_measures
from .split import load_split
from .windows import load_tokenizer
from .word_index import WordIndex

PACKAGED = Path(__file__).parents[1] / "heddle_extractor" / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--model", type=Path, default=PACKAGED)
    add("--part", choices=("dev", "test"), default="test")
    add("--questions", type=int, help="drawn by the seed; all without it")
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="write the measures there")
    add(
        "--fix-threshold",
        action="store_true",
        help="write the score that 95 %% of this part's right answers reach into the config",
    )
    args = parser.parse_args()
    if args.fix_threshold and args.part != "dev":
        parser.error("the threshold is fixed on the dev questions: --part dev")
    os.nice(19)
    torch.set_num_threads(1)
    measures = evaluated(args.model, args.part, args.questions, args.seed)
    for name, value in measures.items():
        print(f"{name:<28}{value:.4f}")
    if args.json is not None:
        args.json.write_text(json.dumps(measures, indent=2) + "\n")
    if args.fix_threshold:
        config = read_config(args.model) | {"threshold": measures["threshold_at_95"]}
        write_config(args.model, config)


def evaluated(folder: Path, part: str, n_questions: int | None, seed: int) -> dict[str, float]:
    """All measures of an extractor on a part of the questions."""
    split = load_split()
    rows = {"dev": split.dev, "test": split.test}[part]
    if n_questions is not None and n_questions < len(rows):
        rows = random.Random(seed).sample(rows, n_questions)
    model, tokenizer = load_extractor(folder), load_tokenizer(base_directory())
    index = WordIndex(list(split.corpus.values()), [row.question for row in rows])
    measures = {"questions": float(len(rows))}
    measures |= oracle_measures(model, tokenizer, rows)
    return measures | retrieved_measures(model, tokenizer, rows, index)


if __name__ == "__main__":
    main()
