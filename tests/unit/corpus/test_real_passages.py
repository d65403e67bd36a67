"""A real corpus goes in whole; skipped where the data is not at hand."""

import gzip
import json
import os
from pathlib import Path

import pytest

from heddle.corpus.ingestion import ingest_documents
from tests.helpers.corpus_rows import rows_of

DATA = Path(os.environ.get("HEDDLE_DATA", Path(__file__).parents[4] / "shared" / "data"))
CORPUS = DATA / "mini_corpus.jsonl.gz"


@pytest.mark.skipif(not CORPUS.exists(), reason="set HEDDLE_DATA to where mini_corpus.jsonl.gz is")
@pytest.mark.parametrize(
    "store", ["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_two_thousand_passages(store):
    report = ingest_documents(store, [CORPUS])
    assert (report.added, report.failures) == (2000, ())
    by_document: dict[str, list[str]] = {}
    with rows_of(store) as connection:
        for name, text in connection.execute(
            "SELECT id, text FROM documents JOIN chunks USING (version) ORDER BY chunk_id"
        ):
            by_document.setdefault(name, []).append(text)
    with gzip.open(CORPUS, "rt", encoding="utf-8") as file:
        for line in file:
            passage = json.loads(line)
            found = "".join("".join(by_document[passage["id"]]).split())
            assert found == "".join(passage["text"].split())
