"""Folders of an index in parts: those of another number of parts go, unless they are in use."""

import fcntl
import logging
import os

from heddle.engines.vector.shards import folders
from heddle.engines.vector.shards.folders import HeldFolder, remove_other_divisions
from heddle.engines.vector.shards.part import Part


def make(corpus, *names):
    for name in names:
        (corpus / "shards" / name / "index").mkdir(parents=True)
        (corpus / "shards" / name / "index" / "manifest.json").write_text("{}")


def left(corpus):
    return sorted(path.name for path in (corpus / "shards").iterdir())


def test_other_divisions_go_and_nothing_else(tmp_path):
    make(tmp_path, "0-of-2", "1-of-2", "0-of-3", "2-of-3", "notes", "0-of-three", "x-0-of-2")
    (tmp_path / "shards" / "1-of-4").symlink_to(tmp_path)
    remove_other_divisions(tmp_path, 3)
    assert left(tmp_path) == ["0-of-3", "0-of-three", "1-of-4", "2-of-3", "notes", "x-0-of-2"]


def test_a_folder_in_use_stays_until_it_is_released(tmp_path, caplog):
    held = HeldFolder(Part(1, 2).directory(tmp_path))
    with caplog.at_level(logging.INFO, logger=folders.__name__):
        remove_other_divisions(tmp_path, 3)
    assert left(tmp_path) == ["1-of-2"]
    assert "another server searches it" in caplog.text
    held.release()
    remove_other_divisions(tmp_path, 3)
    assert left(tmp_path) == []


def test_a_folder_that_is_removed_while_it_is_opened_is_made_again(tmp_path, monkeypatch):
    folder = Part(1, 2).directory(tmp_path)
    lock = fcntl.flock

    def removed_first(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        remove_other_divisions(tmp_path, 3)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    held = HeldFolder(folder)
    remove_other_divisions(tmp_path, 3)
    assert left(tmp_path) == ["1-of-2"]
    held.release()


def test_a_folder_that_is_removed_before_it_is_opened_is_made_again(tmp_path, monkeypatch):
    folder, opened = Part(1, 2).directory(tmp_path), os.open

    def removed_first(path, flags):
        monkeypatch.setattr(os, "open", opened)
        remove_other_divisions(tmp_path, 3)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", removed_first)
    held = HeldFolder(folder)
    remove_other_divisions(tmp_path, 3)
    assert left(tmp_path) == ["1-of-2"]
    held.release()


def test_what_cannot_be_removed_is_told(tmp_path, caplog):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "0-of-2").write_text("a file")
    remove_other_divisions(tmp_path, 3)
    assert "can't be removed" in caplog.text
    assert left(tmp_path) == ["0-of-2"]


def test_a_corpus_that_was_never_divided(tmp_path):
    remove_other_divisions(tmp_path, 3)
    assert list(tmp_path.iterdir()) == []
