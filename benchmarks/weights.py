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

import math
import random
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.support.data import rows
from benchmarks.support.reusing_model import Prompts, ReusingModel
from benchmarks.support.text_model import TextModel
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
TOKENS: Final = 201  # of a passage: 200 of them have one behind them
AT_ONCE: Final = {"steps of 16": 16, "at once": TOKENS}


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
    read = _read(directory, texts, taken)
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


@dataclass(frozen=True, slots=True)
class _Way:
    """A number type, how weights are kept, and how many tokens a step has, in words."""

    dtype: torch.dtype
    weights: str
    at_once: str


@dataclass(frozen=True, slots=True, eq=False)
class _Foreseen:
    """The likeliest token behind each, and the loss of the one that stands there. Shapes: [n]."""

    tokens: Tensor
    losses: Tensor

    @property
    def loss(self) -> float:
        return float(self.losses.mean())


def _read(directory: Path, texts: list[list[int]], dtype: torch.dtype) -> list[dict[str, Any]]:
    """Return what changes by int8, and by the number type if it is not float32."""
    found: dict[_Way, _Foreseen] = {}
    numbers = dict.fromkeys([(dtype, WHOLE), (dtype, INT8), (torch.float32, WHOLE)])
    for number, weights in numbers:
        model = TextModel(directory, number, weights, TOKENS)
        for name, at_once in AT_ONCE.items():
            found[_Way(number, weights, name)] = _foreseen(model, texts, at_once)
    compared = []
    for name in AT_ONCE:
        full = _Way(dtype, WHOLE, name)
        compared.append((_Way(dtype, INT8, name), full))
        if dtype is not torch.float32:
            compared.append((full, _Way(torch.float32, WHOLE, name)))
    return [_compared(way, other, found) for way, other in compared]


def _foreseen(model: TextModel, texts: list[list[int]], at_once: int) -> _Foreseen:
    tokens, losses = [], []
    for text in texts:
        logits = model.logits(text, at_once)[:-1]
        tokens.append(logits.argmax(dim=-1))
        losses.append(F.cross_entropy(logits, torch.tensor(text[1:]), reduction="none"))
    return _Foreseen(torch.cat(tokens), torch.cat(losses))


def _compared(way: _Way, other: _Way, found: dict[_Way, _Foreseen]) -> dict[str, Any]:
    one, two = found[way], found[other]
    return {
        "weights": way.weights,
        "dtype": str(way.dtype),
        "tokens": way.at_once,
        "beside": f"{other.weights} in {other.dtype}",
        "scored": len(one.tokens),
        "same_token": float((one.tokens == two.tokens).float().mean()),
        "perplexity": math.exp(one.loss),
        "perplexity_rise": math.exp(one.loss - two.loss) - 1,
    }
