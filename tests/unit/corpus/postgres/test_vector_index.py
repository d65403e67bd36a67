"""Searches inside PostgreSQL, by pgvector, over each kind of index."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.core.search_scope import EVERYBODYS, SearchScope
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_index import SearchEffort, VectorIndexKind
from tests.helpers.postgres import Databases, name_of
from tests.unit.corpus.corpora import DIMS, chunks, document, embed, put, vectors_of

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL is not installed: psycopg")

COUNT, K = 300, 10
FAR = SearchEffort(candidates=1000, lists=1000)  # so far that nothing is missed here
QUERIES = np.random.default_rng(7).standard_normal((3, DIMS)).astype(np.float32)
RED = (("colour", ("red", "blue")),)


@pytest.fixture(scope="module")
def filled_template(
    postgres: Databases, template: str, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Texts of no tenant, of ann and of bob; each twentieth is red."""
    url = postgres.new(template)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEDDLE_WORK", str(tmp_path_factory.mktemp("work")))
        with CorpusStore.open(url) as store:
            for number in range(COUNT):
                item = replace(
                    document(f"d{number}"),
                    tenant=("", "", "ann", "bob")[number % 4],
                    metadata=(("colour", "red"),) if number % 20 == 0 else (),
                )
                store.documents.put_document(item, chunks(f"text {number}"))
            embed(store)
    return name_of(url)


@pytest.fixture
def url(
    postgres: Databases,
    filled_template: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    monkeypatch.setenv("HEDDLE_WORK", str(tmp_path))
    copy = postgres.new(filled_template)
    yield copy
    postgres.drop(copy)


@pytest.fixture
def filled(url: str) -> Iterator[CorpusStore]:
    with CorpusStore.open(url) as store:
        yield store


@pytest.fixture(params=VectorIndexKind, ids=lambda kind: kind.value)
def indexed(request: pytest.FixtureRequest, filled: CorpusStore) -> CorpusStore:
    make(filled, request.param)
    return filled


@pytest.fixture
def graph(filled: CorpusStore) -> CorpusStore:
    make(filled, VectorIndexKind.HNSW)
    return filled


def make(store: CorpusStore, kind: VectorIndexKind | None) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    store.vector_index.refresh(kind, lambda done, total: told.append((done, total)))
    return told


def found(store: CorpusStore, scope: SearchScope = EVERYBODYS, k: int = K) -> list[list[int]]:
    """Return the chunks that each query finds, the nearest first."""
    hits = store.vector_index.search(QUERIES, k, scope, FAR)
    for labels, distances in zip(hits.labels, hits.distances, strict=True):
        there = labels >= 0
        assert (np.diff(distances[there]) >= 0).all()
        assert np.isinf(distances[~there]).all()
    return [[one for one in row.tolist() if one >= 0] for row in hits.labels]


def nearest(store: CorpusStore, scope: SearchScope = EVERYBODYS) -> list[list[int]]:
    """Return the same by comparing the vectors that lanes read."""
    [batch] = store.vectors()
    allowed = store.allowed(scope)
    seen = np.isin(batch.chunk_ids, batch.chunk_ids if allowed is None else allowed)
    ids, vectors = batch.chunk_ids[seen], batch.vectors[seen]
    distances = ((QUERIES[:, None] - vectors[None]) ** 2).sum(axis=2)
    return [ids[np.argsort(row)[:K]].tolist() for row in distances]


def test_it_finds_what_lanes_find(indexed: CorpusStore):
    scopes = (SearchScope(), SearchScope("ann"), SearchScope("new"), SearchScope("ann", RED))
    for scope in scopes:
        if indexed.vector_index.ready_kind().is_half:  # which can't tell near neighbours apart
            for own, exact in zip(found(indexed, scope), nearest(indexed, scope), strict=True):
                assert len(own) == len(exact)
                assert len({*own} & {*exact}) >= len(exact) - 1
        else:
            assert found(indexed, scope) == nearest(indexed, scope)
    hits = indexed.vector_index.search(QUERIES, 1, EVERYBODYS, FAR)
    [[first], *_] = hits.labels
    exact = ((QUERIES[0] - vectors_of([int(first)])[0]) ** 2).sum()
    assert hits.distances[0, 0] == pytest.approx(exact, rel=1e-2)
    assert hits.revision == indexed.revision
    assert hits.how.startswith(f"pgvector {indexed.vector_index.kind().value}: ")


def test_what_is_committed_is_found_and_what_is_deleted_is_not(graph: CorpusStore):
    graph.documents.delete_document("d0")
    put(graph, "d1", "another text of d1", "and a second piece")
    put(graph, "twin", "text 4")  # a twin: what is found stays d4's
    before = found(graph)
    assert before == nearest(graph)  # d1 as it was: its new version waits for vectors
    embed(graph)
    graph.documents.delete_document("d4")  # the twin takes its place
    graph.documents.put_document(replace(document("mine"), tenant="ann"), chunks("ann's own"))
    embed(graph)
    for scope in (SearchScope(), SearchScope("ann")):
        assert found(graph, scope) == nearest(graph, scope)
    assert graph.vector_index.problem() == ""


def test_a_scope_of_which_the_index_gives_too_few_is_compared_whole(graph: CorpusStore):
    scope = SearchScope("ann", RED)
    hits = graph.vector_index.search(QUERIES, COUNT, scope, SearchEffort())
    allowed = set(graph.allowed(scope).tolist())
    assert [set(row[row >= 0].tolist()) for row in hits.labels] == [allowed] * len(QUERIES)
    assert hits.how == "pgvector hnsw: all in scope compared"


def test_a_tenants_search_can_use_the_index(graph: CorpusStore, url: str):
    with psycopg.connect(url) as raw:
        raw.execute("SET search_path TO heddle, public")
        for other in ("seqscan", "bitmapscan", "sort"):  # which pay where there are few rows
            raw.execute(f"SET enable_{other} TO off")
        raw.execute("SET ROLE heddle_tenant")
        raw.execute("SELECT set_config('heddle.tenant', 'ann', false)")
        plan = raw.execute(
            "EXPLAIN SELECT chunk_id FROM pgvectors WHERE tenant IN ('', 'ann')"
            " ORDER BY vec <-> '[1,2,3,4]' LIMIT 10"
        ).fetchall()
    assert "pgvectors_near" in str(plan)


def test_row_level_security_hides_the_copies_of_other_tenants(graph: CorpusStore, url: str):
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("SET ROLE heddle_tenant")
        for tenant, own in (("bob", {"", "bob"}), ("ann", {"", "ann"}), ("", {""})):
            raw.execute("SELECT set_config('heddle.tenant', %s, false)", (tenant,))
            seen = raw.execute("SELECT DISTINCT tenant FROM heddle.pgvectors").fetchall()
            assert {row[0] for row in seen} == own
        for statement in ("TABLE heddle.pgvectors_due", "DELETE FROM heddle.pgvectors"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(statement)


def test_vectors_that_an_older_heddle_made_live_are_copied_by_the_next_search(
    graph: CorpusStore, postgres: Databases, url: str
):
    put(graph, "late", "a text of its own")
    embed(graph)
    wanted = found(graph)
    postgres.run(
        "SET search_path TO heddle; WITH gone AS (DELETE FROM pgvectors RETURNING chunk_id)"
        " INSERT INTO pgvectors_due SELECT chunk_id FROM gone",
        url,
    )
    assert "lacks" in graph.vector_index.problem()
    assert found(graph) == wanted
    assert graph.vector_index.problem() == ""


def test_an_index_is_made_anew_under_running_searches_and_removed(graph: CorpusStore):
    wanted = found(graph)
    told = make(graph, VectorIndexKind.IVFFLAT)
    assert told[-1] == (COUNT, COUNT)
    assert found(graph) == wanted
    assert make(graph, None) == []
    graph.vector_index.remove()
    assert graph.vector_index.kind() is None
    with pytest.raises(
        ConfigError, match=r"has no index .* heddle index --into .* --pgvector hnsw"
    ):
        found(graph)
    put(graph, "more", "writes go on")
    embed(graph)


def test_a_build_that_was_stopped_is_finished_by_the_next_run(
    filled: CorpusStore, monkeypatch: pytest.MonkeyPatch
):
    from heddle.corpus.postgres import vector_tables

    def stopped(connection: object, name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vector_tables, "make_index", stopped)
        with pytest.raises(KeyboardInterrupt):
            make(filled, VectorIndexKind.HNSW)
    with pytest.raises(ConfigError, match="has an unfinished index"):
        filled.vector_index.ready_kind()
    assert "unfinished" in filled.vector_index.problem()
    put(filled, "meanwhile", "written while there is no index")
    embed(filled)
    make(filled, None)
    assert found(filled) == nearest(filled)


def test_a_database_without_pgvector_is_refused(filled: CorpusStore, postgres: Databases, url: str):
    database = name_of(url)
    postgres.run(f"ALTER DATABASE {database} SET extension_control_path = '/nowhere'")
    with CorpusStore.open(url) as store:
        for refused in (store.vector_index.check_offered, store.vector_index.ready_kind):
            with pytest.raises(ConfigError, match=r"has no pgvector.* install it"):
                refused()
        with pytest.raises(ConfigError, match="has no pgvector"):
            make(store, VectorIndexKind.HNSW)
        assert store.vector_index.kind() is None


def test_a_user_who_owns_no_table_is_told_who_has_to_make_the_index(
    filled: CorpusStore, postgres: Databases, url: str
):
    postgres.run("CREATE ROLE other LOGIN IN ROLE heddle_log, heddle_tenant")
    try:
        with CorpusStore.open(url.replace("//postgres:@", "//other@")) as store:
            with pytest.raises(ConfigError, match="have a superuser run CREATE EXTENSION vector"):
                make(store, VectorIndexKind.HNSW)
            make(filled, VectorIndexKind.HNSW)
            assert found(store) == nearest(store)
            put(store, "others", "written by a user without owner's rights")
            embed(store)
            assert found(store) == nearest(store)
            assert make(store, None) == []
    finally:
        postgres.run("DROP ROLE other")
