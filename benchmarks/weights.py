"""What weights of 8 bits cost in answers: --weights int8 beside full weights in one number type.

* The reader answers reader-notes' questions over their own passages, greedily, with both; F1 is
  SQuAD's, paired by question. reader_f1_drop_high95 is the upper 95 % bound of what int8 loses.
* SmolLM2 reads passages of Wikipedia of 201 tokens, with both: in steps of 16 tokens, which are
  multiplied by whole numbers as decodes are, and at once, as prompts are. same_token is the share
  of tokens behind which both foresee the same one; perplexity_rise is int8's perplexity over that
  of full weights, minus 1. The headline has the worse of both ways. A row beside them shows what
  bfloat16 itself changes, where that is the number type.

--dtype NAME: the number type; else what the engine takes by itself. --questions N of the reader.
"""

import random
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import torch

from benchmarks.support.data import rows
from benchmarks.support.reusing_model import Prompts, ReusingModel
from benchmarks.support.text_reading import TOKENS, read_both_ways
from heddle.app.models.model_source import READER, model_directory
from heddle.app.models.smollm2 import SMOLLM2
from heddle.cli.progress import ProgressLines
from heddle.core.dtypes import INT8, WHOLE
from heddle.core.kv_reuse import FULL_ATTENTION
from heddle.engines.llm.build import LlmSettings, dtype_of
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.evals.catalogue import READER_NOTES, load_dataset
from heddle.evals.context import sample
from heddle.evals.metrics.bootstrap import estimate_difference, estimate_mean
from heddle.evals.metrics.token_f1 import token_f1
from heddle.evals.question import EvalQuestion

QUESTIONS: Final = 1000
QUESTIONS_QUICK: Final = 60
PASSAGES: Final = 10
PASSAGES_QUICK: Final = 3


def run(
    quick: bool, seed: int, dtype: str = "auto", questions: int | None = None
) -> dict[str, object]:
    """Ask and read with both.

    Raises:
        ConfigError: weights of 8 bits can't run here.
        InputError: SmolLM2 or the passages aren't there.
    """
    directory = model_directory(SMOLLM2)
    taken = dtype_of(LlmSettings(directory, dtype=dtype))
    count = questions or (QUESTIONS_QUICK if quick else QUESTIONS)
    asked = sample(load_dataset(READER_NOTES), count, seed)
    answers = {weights: _f1(asked, weights, dtype) for weights in (WHOLE, INT8)}
    drop = estimate_difference(answers[WHOLE], answers[INT8], seed)
    texts = _passages(directory, PASSAGES_QUICK if quick else PASSAGES, seed)
    read = read_both_ways(directory, texts, taken)
    return {
        "settings": {"dtype": str(taken), "threads": torch.get_num_threads()},
        "rows": [
            {
                "part": "reader",
                "questions": len(asked),
                "f1_full": estimate_mean(answers[WHOLE], seed).mean,
                "f1_int8": estimate_mean(answers[INT8], seed).mean,
                "f1_drop": drop.mean,
                "f1_drop_low95": drop.low,
                "f1_drop_high95": drop.high,
            },
            *({"part": "text", **row} for row in read),
        ],
        "headline": {
            "reader_f1_drop_high95": drop.high,
            "same_token": min(row["same_token"] for row in read if row["weights"] == INT8),
            "perplexity_rise": max(
                row["perplexity_rise"] for row in read if row["weights"] == INT8
            ),
        },
    }


def _f1(asked: tuple[EvalQuestion, ...], weights: str, dtype: str) -> tuple[float, ...]:
    """Return the F1 of each question, in their order."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(ReusingModel(Prompts.of(READER), Path(folder), weights, dtype)) as model,
        ProgressLines() as progress,
    ):
        found = {}
        for reply in model.replies(asked, FULL_ATTENTION):
            found[reply.question.id] = token_f1(reply.text, reply.question.answers)
            progress.update(f"reader, weights {weights}", len(found), len(asked))
    return tuple(found[question.id] for question in asked)


def _passages(directory: Path, count: int, seed: int) -> list[list[int]]:
    """Return the first tokens of passages that are long enough."""
    tokenizer = PromptTokenizer.from_directory(directory)
    texts = [row["text"] for row in rows("mini_corpus")]
    random.Random(seed).shuffle(texts)
    encoded = (list(tokenizer.encode_slot(text)) for text in texts)
    long = (tokens[:TOKENS] for tokens in encoded if len(tokens) >= TOKENS)
    return [tokens for tokens, _ in zip(long, range(count), strict=False)]
