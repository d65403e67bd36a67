"""Which files of a corpus a fault may damage."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.attacks.chaos.ledger import Ledger
from tools.attacks.chaos.scene import Scene


def scene_at(corpus: Path) -> Scene:
    ground: Any = None
    server: Any = SimpleNamespace(corpus=corpus, log="")
    return Scene(ground, server, Ledger(), seed=0)


def test_documents_are_not_derived_but_all_other_files_are(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    for name in ("corpus.sqlite", "corpus.sqlite-wal", "index/ivf-1.faiss", "index/manifest.json"):
        (tmp_path / name).touch()
    names = [path.name for path in scene_at(tmp_path).derived_files]
    assert names == ["ivf-1.faiss", "manifest.json"]


def test_an_exit_code_is_right_where_it_is_one_of_those_named(tmp_path: Path) -> None:
    scene = scene_at(tmp_path)
    scene.ended(0, 0)
    scene.ended(4, 4)
    scene.ended(-9, 0)
    assert scene.exits == {True: 2, False: 1}
    assert scene.ledger.problems == ["it ended with -9 and not (0,): "]
