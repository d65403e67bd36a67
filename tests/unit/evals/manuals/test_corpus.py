import pytest

from heddle.evals.manuals.corpus import pages_digest, pages_folder
from heddle.evals.manuals.page import ManualPage

PAGES = (ManualPage("a.md", "# a\n"), ManualPage("b.txt", "b\n"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))


def test_the_pages_are_files_of_a_folder():
    folder = pages_folder(PAGES)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "a.md": "# a\n",
        "b.txt": "b\n",
    }


def test_a_folder_is_made_once_and_a_half_made_one_again():
    folder = pages_folder(PAGES)
    (folder / "a.md").write_text("changed")
    assert (pages_folder(PAGES) / "a.md").read_text() == "changed"
    (folder.parent / ".whole").unlink()
    assert (pages_folder(PAGES) / "a.md").read_text() == "# a\n"


def test_other_pages_have_another_folder_and_order_counts_for_nothing():
    assert pages_digest(PAGES) == pages_digest(PAGES[::-1])
    assert pages_digest(PAGES) != pages_digest(PAGES[:1])
    moved = (ManualPage("a.md", "# a\nb"), ManualPage(".txt", "b\n"))
    assert pages_folder(PAGES) != pages_folder(moved)
