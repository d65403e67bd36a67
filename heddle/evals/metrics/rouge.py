"""ROUGE-1 and ROUGE-L: overlap of words, and of words in their order."""

import re
from collections.abc import Sequence
from typing import Final

from heddle.evals.metrics.token_f1 import f1_of_bags, f_measure

_WORD: Final = re.compile(r"[^\W_]+")


def rouge_1(answer: str, accepted: Sequence[str]) -> float:
    """Return the best ROUGE-1 F-measure over the accepted answers, in [0, 1].

    Words are runs of letters and digits in lower case; no stemmer, and articles count.
    Source: Lin 2004. FusionRAG §5.1 says that its F1 is "computed using ROUGE-1" and names
        SQuAD and LongBench for it, which both drop articles: that is `token_f1`. The two differ
        by articles and by how punctuation splits words, so both are reported.
    """
    given = _words(answer)
    return max((f1_of_bags(given, _words(one)) for one in accepted), default=0.0)


def rouge_l(answer: str, accepted: Sequence[str]) -> float:
    """Return the best ROUGE-L F-measure (beta 1) over the accepted answers, in [0, 1].

    Precision and recall are the longest common subsequence over the two lengths. (Lin 2004)
    """
    given = _words(answer)
    return max((_f_of_subsequence(given, _words(one)) for one in accepted), default=0.0)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _f_of_subsequence(given: Sequence[str], wanted: Sequence[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    return f_measure(_common_subsequence(given, wanted), len(given), len(wanted))


def _common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, row by row."""
    above = [0] * (len(other) + 1)
    for word in one:
        row = [0]
        for column, other_word in enumerate(other):
            row.append(
                above[column] + 1 if word == other_word else max(row[column], above[column + 1])
            )
        above = row
    return above[-1]
