"""Which wiki questions are trained on, which tell when to stop, and which are held for tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .rows import Passage, Row
from .sources import SQUADSHIFTS, corpus_passages, gold_keys, musique_rows, wiki_rows

TEST_SHARE = 0.2
DEV_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Split:
    """Rows by purpose.

    test: the last 20 % of each data set in file order; SQuADShifts by whole articles.
    dev: in the same manner the last 5 % of what is left; for the curve and the threshold.
    train: the others, and MuSiQue's hops, without any title of test or dev.
    corpus: all passages by id.
    barred: passages no negative may come from: titles and texts of test and dev gold passages.
    """

    train: list[Row]
    dev: list[Row]
    test: list[Row]
    corpus: dict[str, Passage]
    barred: frozenset[str]


def load_split() -> Split:
    """Read the data folder and split its questions.

    Raises:
        InputError: the data isn't there.
    """
    corpus = corpus_passages()
    gold = gold_keys()
    rest, test = _cut(wiki_rows(corpus), TEST_SHARE)
    rest = _without_titles(rest, test)
    train, dev = _cut(rest, DEV_SHARE)
    train = _without_titles([*train, *musique_rows()], [*test, *dev])
    barred = _barred(corpus, [*test, *dev], gold)
    return Split([row for row in train if row.spans], dev, test, corpus, barred)


def _cut(rows: Iterable[Row], share: float) -> tuple[list[Row], list[Row]]:
    """Return rows without and with the last share of each data set."""
    by_source: dict[str, list[Row]] = {}
    for row in rows:
        by_source.setdefault(row.source, []).append(row)
    kept: list[Row] = []
    held: list[Row] = []
    for source, ours in by_source.items():
        units = [row.passage.title for row in ours] if source == SQUADSHIFTS else range(len(ours))
        order = list(dict.fromkeys(units))
        last = set(order[int(len(order) * (1 - share)) :])
        for unit, row in zip(units, ours, strict=True):
            (held if unit in last else kept).append(row)
    return kept, held


def _without_titles(rows: Iterable[Row], held: Iterable[Row]) -> list[Row]:
    titles = {row.passage.title for row in held}
    return [row for row in rows if row.passage.title not in titles]


def _barred(
    corpus: dict[str, Passage], held: Sequence[Row], gold: dict[str, tuple[str, ...]]
) -> frozenset[str]:
    titles = {row.passage.title for row in held}
    keys = {key for row in held for key in gold[row.key]}
    texts = {corpus[key].text for key in keys}
    return frozenset(
        p.key for p in corpus.values() if p.title in titles or p.key in keys or p.text in texts
    )
