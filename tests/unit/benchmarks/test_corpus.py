"""The benchmark of a corpus's stores."""

import pytest

from benchmarks import corpus
from heddle.core.errors import InputError
from tests.helpers.postgres import skip_without_postgres


def test_unknown_stores_are_refused():
    with pytest.raises(InputError, match="--store takes sqlite,postgres"):
        corpus.run(quick=True, seed=0, store="mysql")


@pytest.mark.slow
def test_a_quick_run_compares_both_stores(monkeypatch):
    skip_without_postgres()
    monkeypatch.setenv("HEDDLE_WORK", "")
    monkeypatch.setattr(corpus, "VECTORS_QUICK", 500)
    found = corpus.run(quick=True, seed=0)
    assert set(found["headline"]) == {"follow_vectors_per_s", "x_sqlite_search_p50"}
    assert [row["store"] for row in found["rows"]] == ["sqlite", "postgres"]
