"""The 46,000 Wikipedia passages (quick: 2,000) and the medical ones, indexed once, in the cache."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.data import file_digest, made_from, rows
from heddle.app.index_paths import EmbedProgress, index_paths
from heddle.cli.progress import ProgressLines
from heddle.core.cache import write_json
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.build import default_model_dir
from heddle.evals.data_folder import data_file


@dataclass(frozen=True, slots=True)
class WikiIndex:
    """An indexed corpus and the data sets of questions about it."""

    directory: Path
    passages: int
    single: str
    multihop: str


def wiki_index(quick: bool) -> WikiIndex:
    """Return the index, made or finished first where it isn't complete."""
    prefix = "mini" if quick else "wiki"
    directory = _indexed(prefix)
    with CorpusStore.open(directory) as store:
        return WikiIndex(directory, store.vector_count, f"{prefix}_single", f"{prefix}_multihop")


def med_index() -> Path:
    """Return the corpus of the 20,000 medical passages, made or finished first where it isn't."""
    return _indexed("med")


def _indexed(prefix: str) -> Path:
    source = data_file(f"{prefix}_corpus")
    weights = default_model_dir() / "model.safetensors"
    directory = made_from(
        f"{prefix}-index",
        {"corpus": file_digest(source), "embedder": file_digest(weights)},
        by_model=True,
    )
    if not (directory / "complete.json").is_file():
        _build(f"{prefix}_corpus", directory)
    return directory / "corpus"


def _build(name: str, directory: Path) -> None:
    documents = directory / f"{name}.jsonl"
    if not documents.is_file():
        part = documents.with_suffix(".part")
        with part.open("w", encoding="utf-8") as out:
            for row in rows(name):
                fields = {key: row[key] for key in ("id", "title", "text")}
                out.write(json.dumps(fields, ensure_ascii=False) + "\n")
        part.replace(documents)
    started_s = time.monotonic()
    with ProgressLines() as progress:

        def on_vectors(state: EmbedProgress) -> None:
            progress.update(f"embedding {name}", state.chunks_done, state.chunks_total)

        report = index_paths(
            [documents],
            directory / "corpus",
            on_documents=lambda state: None,
            on_vectors=on_vectors,
        )
    seconds = time.monotonic() - started_s
    print(f"indexed {report.vectors} chunks of {name} in {seconds:.0f} s (this run)")
    write_json(directory / "complete.json", {"vectors": report.vectors, "last_run_s": seconds})
