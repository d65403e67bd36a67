"""What was retrieved: recall of the gold passages, and whether the answer was in any passage."""

from collections.abc import Sequence

from heddle.core.passages import Passage
from heddle.evals.metrics.normalized_text import normalized_text
from heddle.evals.metrics.replies import is_claimless
from heddle.evals.question import is_gold, passage_text


def recall_at(
    k: int | None, passages: Sequence[Passage], gold: Sequence[tuple[str, ...]]
) -> float | None:
    """Return the share of gold groups found among the first k passages, in [0, 1].

    A gold passage that an index holds in several chunks is found when one of them is. None = no
    gold is known. `k=None` takes all passages.
    """
    if not gold:
        return None
    seen = passages[:k]
    found = sum(any(is_gold(passage, group) for passage in seen) for group in gold)
    return found / len(gold)


def answer_in_passages(
    answers: Sequence[str], passages: Sequence[Passage], *, requires_all: bool = False
) -> float | None:
    """Return 1.0 if an accepted answer stands in a passage's title or text, else 0.0.

    Both are normalised as SQuAD does, and only whole words count. With `requires_all`, every
    answer must stand in some passage. None = nothing to look for: no answer is known, or it is
    "yes", "no" or "not in the notes".
    """
    wanted = [normalized_text(answer) for answer in answers if not is_claimless(answer)]
    if not wanted:
        return None
    texts = [f" {normalized_text(passage_text(passage))} " for passage in passages]
    stands = [any(f" {answer} " in text for text in texts) for answer in wanted]
    return float(all(stands) if requires_all else any(stands))
