"""What a server refuses before it starts anything, and that it leaves nothing behind then."""

import threading
from pathlib import Path

import pytest

from heddle.app.server import Server, _values
from heddle.core.errors import ConfigError, HeddleError, InputError
from heddle.corpus.store import CorpusStore


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_an_unknown_setting_is_named():
    with pytest.raises(ConfigError, match="temprature"):
        Server("reader", temprature=1)


def test_nothing_to_serve():
    with pytest.raises(ConfigError, match="both are None"):
        Server(None)


def test_no_corpus(tmp_path: Path):
    with pytest.raises(InputError, match="heddle index PATH"):
        Server(None, tmp_path)


def test_an_empty_corpus(tmp_path: Path):
    CorpusStore.open(tmp_path, create=True).close()
    with pytest.raises(InputError, match="holds nothing to search"):
        Server(None, tmp_path)


def test_engines_that_can_not_be_built(tmp_path: Path):
    """The runtime's thread runs already by then; it has to end again."""
    CorpusStore.open(tmp_path, create=True).close()
    (tmp_path / "weights.safetensors").touch()
    with pytest.raises(HeddleError, match=r"config\.json"):
        Server(None, tmp_path, embedder=tmp_path, host="inline", needs_vectors=False)


def test_input_is_another_name_of_query():
    assert _values("a") == {"query": "a"}
    assert _values({"input": "a"}) == {"query": "a"}
    assert _values({"input": "a", "query": "b"}) == {"input": "a", "query": "b"}


def test_a_text_that_is_no_unicode_is_refused_by_its_slot():
    with pytest.raises(InputError, match="topic is not valid Unicode"):
        _values({"query": "ok", "topic": "\udc80"})
    assert _values({"query": "\U0001f600 é"}) == {"query": "\U0001f600 é"}
