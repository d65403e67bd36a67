"""What PostgreSQL does in its own way: logins, versions, roles, outages, words."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from heddle.core.errors import (
    Cancelled,
    ConfigError,
    InputError,
    InternalError,
    StorageError,
    Unreachable,
)
from heddle.core.search_scope import SearchScope
from heddle.corpus.place import CorpusPlace
from heddle.corpus.postgres.connection import PostgresConnection
from heddle.corpus.postgres.database import open_database
from heddle.corpus.postgres.pool import ConnectionPool
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.helpers.postgres import END_ALL, Databases, is_back, name_of
from tests.helpers.server_state import eventually
from tests.unit.corpus.corpora import STAMP, chunks, document, embed, put, texts_searchable

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL is not installed: psycopg")

TEXTS = (
    "The harbour master keeps cats",
    "Two cats run along the quay",
    "Ropes are tarred in spring",
    "A cat sleeps on the ropes, and another cat on the quay",
    "Nothing of note",
    "The setting snake_case is kept in run_fast",
)
QUESTIONS = ("Where are the cats?", "rope quay", "snake_case", "harbour spring notes", "who")


def filled(store: CorpusStore) -> CorpusStore:
    for number, text in enumerate(TEXTS):
        put(store, f"d{number}", text)
    for number in range(12):
        item = replace(document(f"x{number}"), tenant="bob")
        store.documents.put_document(item, chunks(f"Rope and cat again, {number}"))
    embed(store)
    return store


def test_both_stores_find_the_same_by_words_in_the_same_order(sqlite_store, postgres_store):
    stores = [filled(store) for store in (sqlite_store, postgres_store)]
    stores[0].documents.delete_document("d1")
    stores[1].documents.delete_document("d1")
    for question in QUESTIONS:
        for tenant in ("", "ann", "bob"):
            scope = SearchScope(tenant)
            by_file, by_server = (
                store.by_words(question, 20, scope).chunk_ids.tolist() for store in stores
            )
            assert by_file == by_server, (question, tenant)
    assert stores[1].by_words("cats", 20, SearchScope("bob")).chunk_ids.size > 12


def test_a_search_by_words_that_is_cancelled_ends(postgres_store):
    filled(postgres_store)
    with pytest.raises(Cancelled, match="no longer wanted"):
        postgres_store.by_words("cats", 5, SearchScope(), lambda: True)


def test_a_search_by_words_counts_the_texts_of_one_moment(
    postgres_store, postgres_url, monkeypatch
):
    put(postgres_store, "one", "a cat")
    embed(postgres_store)
    execute = PostgresConnection.execute

    def written_between(connection, statement, values=()):
        if "count(*) FROM word_hits" in statement:
            with monkeypatch.context() as as_before, CorpusStore.open(postgres_url) as other:
                as_before.setattr(PostgresConnection, "execute", execute)
                put(other, "many", *(f"cat {number}" for number in range(5)))
                embed(other)
        return execute(connection, statement, values)

    monkeypatch.setattr(PostgresConnection, "execute", written_between)
    assert postgres_store.by_words("cat", 9, SearchScope()).chunk_ids.tolist() == [1]


@pytest.fixture
def serve(postgres: Databases, postgres_url: str) -> Iterator[str]:
    """The URL of the corpus for a user without owner's rights who needs a password."""
    data = postgres.run("SHOW data_directory")[0][0]
    rules = f"{data}/pg_hba.conf"
    with open(rules, encoding="utf-8") as file:
        before = file.read()
    postgres.run("DROP ROLE IF EXISTS serve")
    postgres.run("CREATE ROLE serve LOGIN PASSWORD 'right-secret'")
    with open(rules, "w", encoding="utf-8") as file:
        file.write(f"local all serve scram-sha-256\n{before}")
    postgres.run("SELECT pg_reload_conf()")
    yield postgres_url.replace("//postgres:@", "//serve:right-secret@")
    with open(rules, "w", encoding="utf-8") as file:
        file.write(before)
    postgres.run("SELECT pg_reload_conf()")
    postgres.run("DROP ROLE serve")


def test_a_password_is_never_shown(serve, postgres, caplog):
    with pytest.raises(ConfigError, match=r"refuses the connection.*authentication") as refused:
        CorpusStore.open(serve.replace("right-secret", "wrong-secret"))
    shown = f"{refused.value} {refused.value.__cause__} {CorpusPlace.of(serve)!r} {caplog.text}"
    assert "secret" not in shown
    with pytest.raises(ConfigError, match=r"GRANT heddle_log, heddle_tenant TO"):
        CorpusStore.open(serve)
    postgres.run("GRANT heddle_log, heddle_tenant TO serve")
    with CorpusStore.open(serve) as store:
        put(store, "a", "one")
        embed(store)
        assert texts_searchable(store) == ["one"]
    with pytest.raises(ConfigError, match="no URL of a database") as refused:
        CorpusStore.open(f"{serve}&nonsense=1")
    assert "secret" not in f"{refused.value} {refused.value.__cause__}"


def test_an_owner_needs_no_more_than_to_make_roles_and_schemas(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_WORK", str(tmp_path))
    postgres.run("CREATE ROLE owner LOGIN")
    url = postgres.new()
    postgres.run(f"ALTER DATABASE {name_of(url)} OWNER TO owner")
    own = url.replace("//postgres:@", "//owner@")
    try:
        with pytest.raises(ConfigError, match=r"can't make the tables|GRANT"):
            CorpusStore.open(own, create=True)  # the roles are there, and it may not grant them
        postgres.run("GRANT heddle_log, heddle_tenant TO owner")
        with CorpusStore.open(own, create=True) as store:
            store.set_embedder(STAMP)
            filled(store)
            assert len(store.allowed(SearchScope("ann"))) == len(TEXTS)
        assert postgres.run("SELECT count(*) FROM heddle.documents", url) == [(18,)]
    finally:
        postgres.drop(url)
        postgres.run("DROP ROLE owner")


def test_row_level_security_hides_other_tenants_rows(serve, postgres, postgres_store):
    filled(postgres_store)
    postgres_store.uploads.add("bob", "plan.txt", "assistants", b"plan", now_s=1)
    postgres.run("GRANT heddle_log, heddle_tenant TO serve WITH INHERIT FALSE")
    tables = ("documents", "chunks", "vectors", "word_hits", "uploads", "upload_contents")
    with psycopg.connect(serve, autocommit=True) as raw:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            raw.execute("SELECT 1 FROM heddle.documents")
        raw.execute("SET ROLE heddle_tenant")
        raw.execute("SET search_path TO heddle")

        def counts(tenant: str) -> list[int]:
            raw.execute("SELECT set_config('heddle.tenant', %s, false)", (tenant,))
            return [raw.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]

        own, others = counts("bob"), counts("ann")
        assert [mine - theirs for mine, theirs in zip(own, others, strict=True)][:3] == [12] * 3
        assert (own[4:], others[4:]) == ([1, 1], [0, 0])
        assert raw.execute("SELECT DISTINCT tenant FROM documents").fetchall() == [("",)]
        for statement in ("DELETE FROM documents", "UPDATE meta SET value = '0'", "TABLE sources"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(statement)


def test_tables_of_another_heddle_are_refused(postgres, postgres_url):
    def say(version: int) -> None:
        statement = f"UPDATE heddle.meta SET value = '{version}' WHERE key = 'schema'"
        postgres.run(statement, postgres_url)

    say(9)
    with pytest.raises(ConfigError, match="newer Heddle"):
        CorpusStore.open(postgres_url, create=True)
    postgres.run("UPDATE heddle.meta SET key = 'other' WHERE key = 'schema'", postgres_url)
    with pytest.raises(InputError, match="no corpus here"):
        CorpusStore.open(postgres_url)


def test_older_tables_are_brought_up_to_date_by_their_owner(postgres_url, monkeypatch):
    from heddle.corpus.postgres import schema

    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", 2)
        more = {2: ("CREATE TABLE news (id BIGINT)", "SELECT nonsense")}
        patch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **more})
        with pytest.raises(ConfigError, match="of version 1 and this Heddle reads 2"):
            CorpusStore.open(postgres_url)
        with pytest.raises(psycopg.errors.UndefinedColumn):
            CorpusStore.open(postgres_url, create=True)
        patch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, 2: more[2][:1]})
        with CorpusStore.open(postgres_url, create=True) as store:
            put(store, "a", "one")
            embed(store)
    with pytest.raises(ConfigError, match="newer Heddle"):
        CorpusStore.open(postgres_url)


def test_a_database_without_a_corpus(postgres):
    url = postgres.new()
    try:
        with pytest.raises(InputError, match="no corpus here; make one with: heddle index"):
            CorpusStore.open(url)
        postgres.run("CREATE SCHEMA heddle; CREATE TABLE heddle.other (id BIGINT)", url)
        with pytest.raises(StorageError, match="is not a corpus"):
            CorpusStore.open(url, create=True)
    finally:
        postgres.drop(url)


def test_what_is_removed_leaves_nothing(postgres_url):
    assert CorpusStore.exists(postgres_url)
    CorpusStore.remove(postgres_url)
    assert not CorpusStore.exists(postgres_url)
    with CorpusStore.open(postgres_url, create=True) as again:
        assert again.embedder is None


def test_tables_that_are_made_anew_have_another_origin(postgres_url):
    with CorpusStore.open(postgres_url) as first, CorpusStore.open(postgres_url) as second:
        origin = first.origin
        assert second.origin == origin
        CorpusStore.remove(postgres_url)
        with CorpusStore.open(postgres_url, create=True) as restored:
            assert restored.origin != origin
        assert first.origin == origin  # what was derived from the old ones isn't of the new ones


def test_connections_that_the_server_ended_are_made_anew(postgres, postgres_store):
    put(postgres_store, "a", "one")
    postgres.run(END_ALL)
    embed(postgres_store)
    assert texts_searchable(postgres_store) == ["one"]


def test_the_revision_is_read_again_when_the_server_ended_its_connection(postgres, postgres_store):
    put(postgres_store, "a", "one")
    embed(postgres_store)
    assert postgres_store.revision == 1
    postgres.run(END_ALL)
    assert postgres_store.revision == 1
    asked = postgres_store.ask_revision()
    postgres.run(END_ALL)
    assert asked() == 1


def test_a_revision_that_was_asked_for_is_not_older_than_the_question(postgres_store):
    postgres_store.ask_revision()
    put(postgres_store, "a", "one")
    embed(postgres_store)
    assert postgres_store.revision == 1  # though an answer is still to come
    first, second = postgres_store.ask_revision(), postgres_store.ask_revision()
    assert (first(), second()) == (1, 1)


def test_a_closed_corpus_gives_no_revision(postgres_store):
    assert postgres_store.revision == 0
    postgres_store.close()
    with pytest.raises(InternalError, match="after it was closed"):
        _ = postgres_store.revision


def test_a_write_whose_connection_dies_leaves_nothing(postgres, postgres_store):
    def write() -> None:
        with rows_of(postgres_store) as connection:
            connection.execute("UPDATE meta SET value = '77' WHERE key = 'revision'")
            postgres.run(END_ALL)
            connection.execute("SELECT 1")

    with pytest.raises(Unreachable):
        write()
    assert postgres_store.revision == 0


def test_no_server_is_reported_at_once(tmp_path):
    with pytest.raises(Unreachable, match="can't be reached"):
        CorpusStore.open(f"postgresql:///docs?host={tmp_path}")


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed, and its end, within a moment."""
    monkeypatch.setattr("heddle.corpus.postgres.revision_reader.ANSWER_S", 0.2)
    monkeypatch.setattr("heddle.corpus.postgres.silence.RETRY_S", 0.2)


@pytest.mark.usefixtures("impatience")
def test_a_server_that_falls_silent_holds_nobody_up_for_long(
    postgres: Databases, postgres_store: CorpusStore
):
    put(postgres_store, "a", "one")
    embed(postgres_store)
    with postgres_store.within(0.2) as hurried:
        assert texts_searchable(hurried) == ["one"]
        with postgres.silenced():
            with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
                hurried.passages([1])
            # What waits as long as it takes fails at once, too, as soon as one is known to wait.
            with pytest.raises(Unreachable, match="does not answer"):
                postgres_store.documents.delete_document("a")
        eventually(lambda: is_back(lambda: hurried.passages([1])))
        assert texts_searchable(hurried) == ["one"]
        assert hurried.revision == postgres_store.revision == 1
        asked = postgres_store.ask_revision()
        assert asked() == 1


@pytest.mark.usefixtures("impatience")
def test_a_revision_that_does_not_come_is_given_up(
    postgres: Databases, postgres_store: CorpusStore
):
    assert postgres_store.revision == 0
    with postgres.silenced():
        with pytest.raises(Unreachable, match="does not answer"):
            postgres_store.ask_revision()()
        with pytest.raises(Unreachable, match="does not answer"):
            postgres_store.ask_revision()
    eventually(lambda: is_back(postgres_store.ask_revision))
    assert postgres_store.revision == 0


@pytest.mark.usefixtures("impatience")
def test_a_connection_that_is_not_made_is_given_up(
    postgres: Databases, postgres_store: CorpusStore
):
    with postgres_store.within(0.2) as hurried:
        postgres.run(END_ALL)  # the next read needs a new one
        with postgres.silenced(), pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
            hurried.passages([1])
        eventually(lambda: is_back(lambda: hurried.passages([1])))


def test_writers_wait_for_each_other_and_number_their_commits(postgres_store, postgres_url):
    def write(name: str) -> None:
        with CorpusStore.open(postgres_url) as store:
            for number in range(5):
                put(store, f"{name}{number}", f"text {name} {number}")
                embed(store)

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(texts_searchable(postgres_store)) == 15
    assert postgres_store.stats().pending == 0
    batches = postgres_store.vectors()
    assert sorted(one for batch in batches for one in batch.chunk_ids.tolist()) == [*range(1, 16)]


def test_only_one_server_has_a_task(postgres_store, postgres_url):
    claim = postgres_store.file_queue.claim()
    assert claim is not None
    with CorpusStore.open(postgres_url) as other:
        assert other.file_queue.claim() is None
        claim.release()
        taken = other.file_queue.claim()
        assert taken is not None
        taken.release()


def test_a_claim_that_fails_leaves_no_connection(postgres_url, monkeypatch):
    made, connect = [], ConnectionPool.connect

    def noted(pool):
        made.append(connect(pool))
        return made[-1]

    with closing(open_database(CorpusPlace.of(postgres_url), create=False)) as database:
        monkeypatch.setattr(ConnectionPool, "connect", noted)
        with pytest.raises(InputError, match="NUL character"):
            database.claim("a task\x00")
    assert [connection.closed for connection in made] == [True]


def test_a_server_whose_session_ended_has_its_task_no_more(postgres, postgres_store, postgres_url):
    claim = postgres_store.file_queue.claim()
    assert claim.is_held
    postgres.run(END_ALL)
    eventually(lambda: not claim.is_held)
    with CorpusStore.open(postgres_url) as other:
        taken = other.file_queue.claim()
        assert taken.is_held
        taken.release()
    claim.release()
    assert not claim.is_held


def test_many_chunks_are_copied_in(postgres_store):
    texts = [f"passage {number} of many" for number in range(100)]
    put(postgres_store, "long", *texts)
    put(postgres_store, "other", *(f"other {text}" for text in texts))
    embed(postgres_store)
    assert len(texts_searchable(postgres_store)) == 200
    assert postgres_store.by_words("many", 300, SearchScope()).chunk_ids.size == 200
    postgres_store.documents.delete_document("long")
    assert postgres_store.by_words("many", 300, SearchScope()).chunk_ids.size == 100
    assert len(postgres_store.deleted(0)) == 100


def test_a_character_that_postgresql_cannot_store_is_refused(postgres_store):
    with pytest.raises(InputError, match="NUL character"):
        postgres_store.documents.put_document(document("a"), chunks("before\x00after"))
    assert postgres_store.stats().documents == 0


def test_a_name_that_postgresql_cannot_index_is_refused(postgres_store):
    name = "".join(map(chr, random.Random(0).choices(range(0x4E00, 0x9FA0), k=2000)))
    with pytest.raises(InputError, match="too long for PostgreSQL's indexes"):
        postgres_store.documents.put_document(document(name), chunks("text"))
    assert postgres_store.stats().documents == 0


def test_commits_of_others_are_announced(postgres, postgres_store, postgres_url):
    heard = threading.Semaphore(0)
    with CorpusStore.open(postgres_url) as other:
        other.subscribe(heard.release)
        assert heard.acquire(timeout=30)  # it listens from here on
        put(postgres_store, "a", "one")
        embed(postgres_store)
        assert heard.acquire(timeout=30)
        assert other.revision == 1
        postgres.run(END_ALL)
        assert heard.acquire(timeout=30)  # it listens again


def test_the_stamp_of_a_new_corpus(postgres_store):
    assert postgres_store.embedder == STAMP
