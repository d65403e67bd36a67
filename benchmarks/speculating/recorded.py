"""How the hits of real searches change, list by list: recorded once from the heavy index."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.coscheduling.asks import NPROBES
from benchmarks.coscheduling.heavy_index import INDEX, MAPPED, heavy_index, lists_of
from benchmarks.speculating.hit_scan import HitScan
from benchmarks.support.data import made_from, rows
from benchmarks.support.question_vectors import text_vectors
from benchmarks.support.wiki_index import WikiIndex
from heddle.app.models.model_source import model_directory
from heddle.corpus.store import CorpusStore
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer

HITS: Final = 6  # the most that a ready-made workflow asks for
LISTS_SHARE: Final = 8.29 / 8_000  # of the lists, for each unit of an nprobe (docs/results)
QUESTIONS_MAX: Final = 600


@dataclass(frozen=True, slots=True)
class Shape:
    """What a recording is made from."""

    vectors: int
    questions: int
    passages: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Searches of one index, each in the order of its own lists, nearest first.

    Entry i of a search came among its best `HITS` when list `at[i]` was scanned. `starts[q]` is the
    first entry of search q. `tokens` are the lengths of their passages for the reader, by id.

    Shapes: starts [n + 1], at [m], labels [m], tokens [passages] int64; distances [m] float32.
    """

    nlist: int
    starts: NDArray[np.int64]
    at: NDArray[np.int64]
    labels: NDArray[np.int64]
    distances: NDArray[np.float32]
    tokens: NDArray[np.int64]

    @property
    def searches(self) -> int:
        """Searches that were recorded."""
        return len(self.starts) - 1

    @property
    def nprobes(self) -> list[int]:
        """How many lists searches scan: the shares of `heddle bench workflows`, heavy corpus."""
        return [round(nprobe * LISTS_SHARE * self.nlist) for nprobe in NPROBES]


def recording(wiki: WikiIndex, vectors: int, seed: int) -> Recording:
    """Return the recording of the heavy index of `vectors` vectors, made first if need be."""
    asked = [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]
    asked = asked[:QUESTIONS_MAX]
    shape = Shape(vectors, len(asked), wiki.passages, seed)
    path = made_from("hit-evolution", asdict(shape), by_model=True) / "recording.npz"
    if not path.is_file():
        found = _recorded(heavy_index(wiki, vectors, seed) / INDEX, text_vectors(asked))
        part = path.with_name("part.npz")
        np.savez(part, tokens=_tokens(wiki.directory, found["labels"]), **found)
        part.replace(path)
    kept = np.load(path)
    return Recording(lists_of(vectors), **{name: kept[name] for name in kept.files})


def _recorded(path: Path, queries: NDArray[np.float32]) -> dict[str, NDArray[np.generic]]:
    """Scan the lists of each query, the nearest first, and note what comes among the best."""
    index = faiss.read_index(str(path), MAPPED)
    lists_max = round(max(NPROBES) * LISTS_SHARE * index.nlist)
    print(f"recording {len(queries)} searches of {lists_max} lists", flush=True)
    return HitScan(index, queries, lists_max, HITS).changes(partial(print, flush=True))


def _tokens(directory: Path, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many tokens of the reader each passage among `labels` has, by its id; 0 = others.

    Others are never found, and counting them all would take longer than the scan.
    """
    tokenizer = PromptTokenizer.from_directory(model_directory("reader"))
    ids = np.unique(labels)
    tokens = np.zeros(int(ids.max()) + 1, np.int64)
    with CorpusStore.open(directory) as store:
        for passage in store.passages(ids.tolist()):
            tokens[passage.chunk_id] = len(tokenizer.encode_slot(passage.render()))
    return tokens
