"""The thread that scrubs a corpus: a disk that refuses is reported, and it ends when told."""

from pathlib import Path

from heddle.app.observe.scrubbing import RETRY_S, Scrubbing
from heddle.core.errors import StorageError
from heddle.corpus.checks.scrub import KNOWN_S
from heddle.corpus.store import CorpusStore
from heddle.runtime.clock import SystemClock


def test_a_disk_that_refuses_is_told_until_it_works_again(tmp_path: Path, monkeypatch) -> None:
    def refuse() -> None:
        raise StorageError("the disk refuses")

    with CorpusStore.open(tmp_path, create=True) as store:
        scrubbing = Scrubbing(store.health, 24.0, SystemClock())
        with monkeypatch.context() as patched:
            patched.setattr(store.health, "check_damaged", refuse)
            assert scrubbing._step() == RETRY_S
            assert scrubbing.problem == "the disk refuses"
        assert abs(scrubbing._step() - KNOWN_S) < 1e-6
        assert scrubbing.problem == ""


def test_it_ends_when_told_and_need_not_have_begun(tmp_path: Path) -> None:
    with CorpusStore.open(tmp_path, create=True) as store:
        Scrubbing(store.health, 24.0, SystemClock()).end()
        begun = Scrubbing(store.health, 24.0, SystemClock())
        begun.start()
        begun.end()
        assert not begun._thread.is_alive()
