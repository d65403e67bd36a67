"""Where a corpus is: the names and work directories of databases."""

from pathlib import Path

import pytest

from heddle.cli.main import main
from heddle.core.errors import ConfigError
from heddle.corpus.place import CorpusPlace


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDDLE_WORK", str(tmp_path))


@pytest.mark.parametrize("password", ["secret", "se#cret", "se?cret", "se[cret", "se:cret", ""])
def test_a_password_is_part_of_no_name(password):
    place = CorpusPlace.of(f"postgresql://anna:{password}@db.example:5433/docs?sslmode=require")
    assert place.name == "postgresql://anna@db.example:5433/docs"
    assert "cret" not in repr(place)


def test_databases_have_work_directories_of_their_own():
    urls = (
        "postgresql://anna:se#cret@db.example/docs",
        "postgresql://anna:se#cret@db.example/notes",
        "postgresql://anna:se#cret@other.example/docs",
        "postgresql://berta:se#cret@db.example/docs",
        "postgresql://anna@db.example/docs?port=5433",
    )
    assert len({CorpusPlace.of(url).work for url in urls}) == len(urls)
    same = CorpusPlace.of("postgres://anna:another@db.example/docs")
    assert same.work == CorpusPlace.of(urls[0]).work


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql:///docs", "postgresql:///docs"),
        ("postgresql://anna@/docs?host=/run", "postgresql://anna@/docs"),
        ("postgresql://a:x@[::1]:5433,two:5434/docs", "postgresql://a@[::1]:5433,two:5434/docs"),
    ],
)
def test_a_name_is_a_url_again(url, name):
    assert CorpusPlace.of(url).name == CorpusPlace.of(name).name == name


@pytest.mark.parametrize(
    ("where", "typed"),
    [
        ("my papers", "'my papers'"),
        ("corpus", "corpus"),
        ("postgresql://anna:se?cret@db.example/docs", "postgresql://anna@db.example/docs"),
        (
            "postgresql://anna:secret@/docs?host=/run&sslmode=require&password=secret",
            "'postgresql://anna@/docs?host=/run&sslmode=require'",
        ),
        ("postgresql://db.example/docs?sslpassword=secret", "postgresql://db.example/docs"),
    ],
)
def test_what_is_typed_opens_it_again(where, typed):
    assert CorpusPlace.of(where).typed == typed


@pytest.mark.parametrize("password", ["se@cret", "se/cret"])
def test_a_password_that_libpq_reads_in_another_way_is_refused(password, capsys):
    url = f"postgresql://anna:{password}@db.example/docs"
    with pytest.raises(ConfigError, match="write an @ of its password as %40, and a / as %2F"):
        CorpusPlace.of(url)
    with pytest.raises(SystemExit):
        main(["docs", url, "ls"])
    with pytest.raises(SystemExit):
        main(["index", "notes", "--into", url])
    assert main(["search", url, "a question"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("as %40") == 3
    assert "cret" not in captured.out + captured.err
