"""TLS to PostgreSQL by the URL, with certificates of one's own; no secret is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_index import VectorIndexKind
from tests.helpers.certificates import Certificate, self_signed
from tests.helpers.installed_postgres import PASSWORD, TlsServer, tls_server
from tests.unit.corpus.corpora import STAMP, embed, put, texts_searchable

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL is not installed: psycopg")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: self_signed(folder, name) for name in ("server", "client", "other")}


@pytest.fixture(scope="module")
def server(certificates: dict[str, Certificate]) -> Iterator[TlsServer]:
    with tls_server(certificates["server"], certificates["client"]) as started:
        yield started


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDDLE_WORK", str(tmp_path))


def checked(certificates: dict[str, Certificate], name: str = "server") -> dict[str, object]:
    return {"sslmode": "verify-full", "sslrootcert": certificates[name].certificate}


def test_a_corpus_over_tls_with_a_checked_certificate(server, certificates):
    with CorpusStore.open(server.url(**checked(certificates)), create=True) as store:
        store.set_embedder(STAMP)
        put(store, "a", "one")
        embed(store)
        assert texts_searchable(store) == ["one"]
        ends = server.run(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
            " WHERE application_name = 'heddle'"
        )
        assert ends == [(True,)]
        with pytest.raises(ConfigError, match="has no pgvector"):  # Debian's server comes without
            store.vector_index.refresh(VectorIndexKind.HNSW, lambda done, total: None)


def test_a_client_certificate_stands_for_a_password(server, certificates):
    server.run("CREATE ROLE localhost LOGIN")  # the certificate's common name
    own = {"sslcert": certificates["client"].certificate, "sslkey": certificates["client"].key}
    url = server.url("localhost", "", **checked(certificates), **own)
    try:
        with pytest.raises(ConfigError, match=r"GRANT heddle_log, heddle_tenant"):
            CorpusStore.open(url)
    finally:
        server.run("DROP ROLE localhost")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "other"}, "certificate verify failed"),
        ({"sslrootcert": "/nowhere/root.pem"}, "does not exist"),
        ({"sslmode": "disable"}, "no encryption"),
        ({"password": "wrong-secret"}, "password authentication failed"),
        ({"password": ""}, "no password supplied"),
    ],
)
def test_what_is_refused_names_the_fix_and_no_secret(server, certificates, change, words, caplog):
    change = dict(change)
    password = change.pop("password", PASSWORD)
    options = {**checked(certificates, change.pop("name", "server")), **change}
    with pytest.raises(ConfigError, match=rf"refuses the connection.*{words}") as refused:
        CorpusStore.open(server.url(password=password, **options), create=True)
    said = f"{refused.value} {refused.value.__cause__} {refused.value.__context__} {caplog.text}"
    assert "secret" not in said
    assert "sslmode" in str(refused.value)
