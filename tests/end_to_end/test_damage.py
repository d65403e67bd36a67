"""A corpus whose file was changed by a bad disk: what a server says of it, and what mends it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import Server
from heddle.corpus.sqlite.database import FILE_NAME
from tests.helpers.degraded import kinds
from tests.helpers.server_state import eventually
from tests.helpers.tiny_server import index_documents, write_documents

QUESTION = "Who is the keeper of Rock 3?"
TITLE = "The lighthouse of Rock 3"


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    return index_documents([write_documents(tmp_path / "documents")], tmp_path / "corpus")


@pytest.fixture
def server(indexed: Path) -> Iterator[Server]:
    with Server(None, indexed, engine_host="inline") as running:
        yield running


def damage(corpus: Path) -> None:
    """Change letters of the passage that answers the question, as a bad disk does."""
    with sqlite3.connect(corpus / FILE_NAME) as connection:
        changed = connection.execute(
            "UPDATE chunks SET text = replace(text, 'e', 'i') WHERE title = ?", (TITLE,)
        )
        assert changed.rowcount > 0
    connection.close()


def titles(server: Server) -> list[str]:
    return [passage.title for passage in server.search(QUESTION).passages]


def test_a_damaged_passage_is_left_out_and_told(indexed: Path) -> None:
    with Server(None, indexed) as server:
        before = titles(server)
        assert before[0] == TITLE
        assert server.health()["status"] == "ok"
        damage(indexed)
        found = server.search(QUESTION)
        assert [passage.title for passage in found.passages] == before[1:]
        assert "damaged" in found.receipt.degradations[0].reason
        assert kinds(found.receipt) == ["corpus"]
        health = server.health()
    assert (health["status"], health["ready"]) == ("degraded", True)
    assert f"heddle doctor --index {indexed} --check" in health["notes"]["corpus"][0]


def test_the_scrub_finds_damage_that_no_search_has_met(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heddle.corpus.checks.scrub.FIRST_S", 0.0)
    damage(indexed)
    with Server(None, indexed, engine_host="inline") as server:
        eventually(lambda: server.health()["status"] == "degraded")
        assert server.state().corpus.damaged_chunks == 1


def test_what_brings_a_document_again_mends_it(server: Server, indexed: Path) -> None:
    before = titles(server)
    damage(indexed)
    assert titles(server) == before[1:]
    index_documents([indexed.parent / "documents"], indexed)
    assert titles(server) == before


def test_a_document_put_again_is_mended_in_a_running_server(server: Server, indexed: Path) -> None:
    text = "The keeper of Rock 3 has a see-through hat."
    assert server.upsert("note", text, title=TITLE).embedded.chunks == 1
    damage(indexed)
    assert TITLE not in titles(server)
    assert server.upsert("note", text, title=TITLE).outcome.value == "changed"
    assert [p.text for p in server.search(QUESTION).passages if p.title == TITLE] == [text]
    assert server.upsert("note", text, title=TITLE).outcome.value == "unchanged"
