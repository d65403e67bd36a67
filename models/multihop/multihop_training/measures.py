"""How well the adapter answers the dev questions, each with all of its own passages."""

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer

from .adapted_llama import AdaptedLlama, answer_ids
from .lessons import Lesson
from .samples import prompted


@torch.no_grad()
def dev_measures(
    model: AdaptedLlama, tokenizer: PromptTokenizer, lessons: Sequence[Lesson]
) -> dict[str, float]:
    """Return the mean loss of an answer, and the share that greedy decoding gives word for word.

    An answer whose every token is the likeliest after those before it is what is decoded.
    """
    losses, right = [], []
    for lesson in lessons:
        shown = sorted((*lesson.gold, *lesson.others), key=lambda passage: passage.key)
        sample = prompted(tokenizer, lesson, shown)
        logits, wanted = model.answer_logits([sample]), answer_ids([sample]).to(model.device)
        losses.append(float(F.cross_entropy(logits, wanted)))
        right.append(bool((logits.argmax(-1) == wanted).all()))
    return {"loss": sum(losses) / len(losses), "exact": sum(right) / len(right)}
