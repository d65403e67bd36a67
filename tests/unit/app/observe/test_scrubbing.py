"""The thread that scrubs a corpus: a disk that refuses is reported, and it ends when told."""

import threading
from pathlib import Path

from heddle.app.observe import scrubbing
from heddle.app.observe.scrubbing import Scrubbing
from heddle.core.errors import StorageError
from heddle.corpus.store import CorpusStore
from heddle.runtime.clock import SystemClock
from tests.helpers.server_state import eventually


def test_a_disk_that_refuses_is_told_until_it_works_again(tmp_path: Path, monkeypatch) -> None:
    def refuse() -> None:
        raise StorageError("the disk refuses")

    with CorpusStore.open(tmp_path, create=True) as store:
        thread = Scrubbing(store.health, 24.0, SystemClock())
        monkeypatch.setattr(scrubbing, "RETRY_S", 0.001)
        with monkeypatch.context() as patched:
            patched.setattr(store.health, "check_damaged", refuse)
            thread.start()
            eventually(lambda: thread.problem == "the disk refuses")
        eventually(lambda: thread.problem == "")
        thread.end()


def test_it_ends_when_told_and_need_not_have_begun(tmp_path: Path) -> None:
    with CorpusStore.open(tmp_path, create=True) as store:
        Scrubbing(store.health, 24.0, SystemClock()).end()
        before = set(threading.enumerate())
        begun = Scrubbing(store.health, 24.0, SystemClock())
        begun.start()
        begun.end()
        assert set(threading.enumerate()) <= before
