"""One corpus, one model and two servers for the whole suite: starting them is what takes time."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.inline_engines import inline_engines
from heddle import Server
from tests.helpers.command import Command
from tests.helpers.left_sockets import collect_left_sockets
from tests.helpers.tiny_server import index_documents, write_documents, write_model

KV_BYTES = 32 << 20


FOLDER = Path(__file__).parent


def pytest_runtest_logfinish(nodeid: str) -> None:
    collect_left_sockets(nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts real lanes as slow: `make test-fast` leaves all of this folder out."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Faults are provoked here: their log lines would bury a failure."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("documents"))


@pytest.fixture(scope="session")
def corpus(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index_documents([documents], tmp_path_factory.mktemp("indexed") / "corpus")


@pytest.fixture(scope="session")
def server(model: Path, corpus: Path) -> Iterator[Server]:
    """Engines in lanes of their own, as users have it."""
    with Server(model, corpus, dtype="float32", kv_cache_bytes=KV_BYTES) as running:
        yield running


@pytest.fixture(scope="session")
def inline_server(model: Path, corpus: Path) -> Iterator[Server]:
    """Engines in this process."""
    settings = {"engine_host": "inline", "dtype": "float32", "kv_cache_bytes": KV_BYTES}
    with Server(model, corpus, **settings) as running:
        yield running


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the engines of a command be in its process: lanes take seconds to load."""
    monkeypatch.setenv("HEDDLE_ENGINE_HOST", "inline")  # of a command that is started
    with inline_engines():
        yield


@pytest.fixture
def small_kv_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands take as little memory as servers do here: a gigabyte takes a second."""
    monkeypatch.setenv("HEDDLE_KV_CACHE_BYTES", str(KV_BYTES))


@pytest.fixture
def start() -> Iterator:
    running: list[Command] = []

    def launch(*arguments: object) -> Command:
        running.append(Command(arguments))
        return running[-1]

    yield launch
    for command in running:
        if command.process.poll() is None:
            command.process.kill()
            command.end()
