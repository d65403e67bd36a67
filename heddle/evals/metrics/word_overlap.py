"""Word overlap: how many of an answer's words stand in the passages that its prompt showed."""

from collections.abc import Iterable

from heddle.core.passages import Passage
from heddle.evals.metrics.normalized_text import answer_tokens
from heddle.evals.metrics.replies import is_claimless
from heddle.evals.question import passage_text


def word_overlap(answer: str, passages: Iterable[Passage]) -> float | None:
    """Return the share of the answer's words that occur in the passages, in [0, 1].

    Words are those of SQuAD's normalisation, so articles and punctuation don't count; each
    occurrence in the answer does. A word is supported if any passage has it, in its title or its
    text. None = nothing to check: an empty answer, "yes", "no", "not in the notes".

    Words can be supported one by one while the statement they make is not, so this is an upper
    bound on faithfulness for short answers, and it marks a true paraphrase down. It catches what
    independent chunk caches produce: names and numbers that stand nowhere in the notes. What a
    language model judges, as Ragas does, is `evals.judging`.
    """
    if is_claimless(answer):
        return None
    words = answer_tokens(answer)
    held = {word for p in passages for word in answer_tokens(passage_text(p))}
    return sum(word in held for word in words) / len(words)
