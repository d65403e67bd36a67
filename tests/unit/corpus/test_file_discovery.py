"""Which files are found."""

import os
from pathlib import Path

import pytest

from heddle.core.errors import InputError
from heddle.corpus.file_discovery import LEADS_OUT, FileNote, find_files


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def names(root: Path, *paths: Path, exclude: Path | None = None) -> list[str]:
    found = find_files(paths or (root,), exclude)
    return [str(path.relative_to(root)) for path in found.files]


def test_directories_are_walked_in_order_without_hidden_files(tmp_path):
    tree(tmp_path, "b.txt", "a/z.md", "a/b/c.html", ".hidden/x.txt", "a/.x.txt", "c.PDF")
    assert names(tmp_path) == ["a/b/c.html", "a/z.md", "b.txt", "c.PDF"]


def test_files_have_the_names_that_they_were_given(tmp_path, monkeypatch):
    tree(tmp_path, "docs/a/b.txt", "c.txt")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "docs", target_is_directory=True)
    given = [Path("link/a"), Path("./docs"), tmp_path / "c.txt"]
    assert find_files(given).files == {
        tmp_path / "docs/a/b.txt": "link/a/b.txt",
        tmp_path / "c.txt": str(tmp_path / "c.txt"),
    }


def test_unknown_formats_are_noted_in_a_directory_and_refused_when_named(tmp_path):
    tree(tmp_path, "a.txt", "b.odt")
    found = find_files([tmp_path])
    assert [path.name for path in found.files] == ["a.txt"]
    assert [(Path(n.path).name, n.reason[:14]) for n in found.skipped] == [
        ("b.odt", "unknown format")
    ]
    assert found.refused == ()
    found = find_files([tmp_path / "b.odt"])
    assert [Path(note.path).name for note in found.refused] == ["b.odt"]


def test_a_named_corpus_is_passed_over_and_noted(tmp_path):
    tree(tmp_path, "docs/a.txt", "corpus/b.txt")
    paths = [tmp_path / "corpus", tmp_path / "docs"]
    found = find_files(paths, exclude=tmp_path / "corpus")
    assert [path.name for path in found.files] == ["a.txt"]
    assert [note.path for note in found.skipped] == [str(tmp_path / "corpus")]
    assert "where the corpus lies" in found.skipped[0].reason


@pytest.mark.parametrize("message", ["/a/b.txt: bad", "/a/b.txt, bad", "bad"])
def test_the_note_of_an_error_names_the_file_once(message: str):
    assert FileNote.of(Path("/a/b.txt"), InputError(message)) == FileNote("/a/b.txt", "bad")


def test_a_missing_path(tmp_path):
    with pytest.raises(InputError, match="absent: no such file or directory"):
        find_files([tmp_path, tmp_path / "absent"])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), "there: no permission to look there; change"),
        (OSError(5, "Input/output error"), "there: can't be looked at: Input/output error"),
    ],
)
def test_a_path_that_the_system_refuses(error: OSError, said: str, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "resolve", refuse)
    with pytest.raises(InputError, match=said):
        find_files([tmp_path / "there"])


def test_a_path_whose_name_is_too_long(tmp_path):
    with pytest.raises(InputError, match="can't be looked at: File name too long"):
        find_files([tmp_path / ("a" * 300)])


def test_a_link_to_itself(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match=r"loop: (its links form a loop|can't be looked at)"):
        find_files([tmp_path / "loop"])


def test_links_out_of_the_folder_are_left_unless_asked_for(tmp_path):
    tree(tmp_path, "docs/one.txt", "others/secret.txt", "others/deep/more.md")
    (tmp_path / "docs/link.txt").symlink_to(tmp_path / "others/secret.txt")
    (tmp_path / "docs/folder").symlink_to(tmp_path / "others/deep")
    (tmp_path / "docs/inside.txt").symlink_to(tmp_path / "docs/one.txt")
    docs = tmp_path / "docs"
    found = find_files([docs])
    assert [path.name for path in found.files] == ["one.txt"]
    assert {(Path(note.path).name, note.reason) for note in found.skipped} == {
        ("link.txt", LEADS_OUT),
        ("folder", LEADS_OUT),
    }
    found = find_files([docs], follows_links=True)
    assert {path.name for path in found.files} == {"one.txt", "secret.txt", "more.md"}
    assert found.skipped == ()
    assert len(find_files([docs, tmp_path / "others"]).files) == 3, "what is named is wanted"
    assert find_files([docs / "link.txt"]).files, "a link that is named is wanted"


def test_links_that_form_a_loop(tmp_path):
    tree(tmp_path, "a/one.txt")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "a")
    (tmp_path / "same.txt").symlink_to(tmp_path / "a/one.txt")
    assert names(tmp_path) == ["a/one.txt"]


def test_a_link_to_a_file_of_unknown_format_is_skipped(tmp_path):
    tree(tmp_path, "blob", "one.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "blob")
    found = find_files([tmp_path])
    assert [path.name for path in found.files] == ["one.txt"]
    assert found.refused == ()
    assert f"it leads to {tmp_path / 'blob'}, of unknown format" in found.skipped[1].reason


def test_links_that_lead_nowhere(tmp_path):
    (tmp_path / "broken.txt").symlink_to(tmp_path / "absent")
    (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
    found = find_files([tmp_path])
    assert found.files == {}
    assert {Path(n.path).name for n in found.skipped + found.refused} == {"broken.txt", "self.txt"}
    with pytest.raises(InputError, match=r"self\.txt"):
        find_files([tmp_path / "self.txt"])


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    found = find_files([tmp_path])
    assert found.files == {}
    assert found.skipped[0].reason == "not a regular file"


def test_a_file_is_found_once(tmp_path):
    tree(tmp_path, "a/one.txt")
    found = find_files([tmp_path / "a/one.txt", tmp_path / "a", tmp_path, tmp_path / "a/../a"])
    assert len(found.files) == 1


def test_the_corpus_itself_is_left_out(tmp_path):
    tree(tmp_path, "one.txt", "corpus/two.txt")
    assert names(tmp_path, exclude=tmp_path / "corpus") == ["one.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_directory_that_may_not_be_read(tmp_path):
    tree(tmp_path, "a/one.txt", "two.txt")
    (tmp_path / "a").chmod(0)
    found = find_files([tmp_path])
    (tmp_path / "a").chmod(0o700)
    assert [path.name for path in found.files] == ["two.txt"]
    assert "can't be read" in found.refused[0].reason


def test_a_name_that_is_not_utf8(tmp_path):
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    found = find_files([tmp_path])
    assert found.files == {}
    assert "rename it" in found.refused[0].reason


def test_a_link_whose_name_is_not_utf8_is_refused_and_its_file_found(tmp_path):
    tree(tmp_path, "one.txt")
    link = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.txt")
    try:
        os.symlink(tmp_path / "one.txt", link)
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    found = find_files([tmp_path])
    assert found.files == {tmp_path / "one.txt": str(tmp_path / "one.txt")}
    assert found.refused == (FileNote(ascii(link), "its name is not UTF-8; rename it"),)
