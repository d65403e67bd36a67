"""Arguments that several commands take."""

import argparse
from pathlib import Path

import pytest

from heddle.cli.arguments import (
    add_json,
    add_request,
    document_options,
    request_options,
)
from heddle.cli.command_parser import CommandParser
from heddle.core.errors import InputError


@pytest.fixture
def parser() -> CommandParser:
    parser = CommandParser(prog="heddle test")
    add_request(parser)
    return parser


def test_a_result_may_go_to_a_folder_that_is_to_be_made(tmp_path: Path):
    parser = argparse.ArgumentParser()
    add_json(parser)
    path = tmp_path / "results" / "one.json"
    assert parser.parse_args(["--json", str(path)]).json == path
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("path", "words"), [("file/one.json", "can't be written"), ("folder", "is a folder")]
)
def test_a_result_that_has_no_place_is_refused_at_once(path: str, words: str, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    parser = argparse.ArgumentParser()
    add_json(parser)
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(["--json", str(tmp_path / path)])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_a_request_without_options_is_as_the_workflow_and_the_server_have_it(parser):
    assert request_options(parser.parse([])) == {
        "topk": None,
        "hybrid": None,
        "where": {},
        "tenant": "",
        "priority": "normal",
        "top_p": None,
        "seed": None,
        "stop": None,
    }


def test_the_options_of_a_request(parser):
    options = parser.parse(
        ["--topk=3", "--hybrid", "--priority=bulk", "--tenant=ann", "--seed=7", "--stop=END"]
    )
    assert request_options(options) == {
        "topk": 3,
        "hybrid": True,
        "where": {},
        "tenant": "ann",
        "priority": "bulk",
        "top_p": None,
        "seed": 7,
        "stop": ["END"],
    }
    assert request_options(parser.parse(["--no-hybrid"]))["hybrid"] is False


def test_filters_of_one_key_are_alternatives(parser, capsys):
    filters = [f"--where={text}" for text in ("lang=en", "year=2021", "lang=a=b")]
    where = request_options(parser.parse(filters))["where"]
    assert where == {"lang": ["en", "a=b"], "year": ["2021"]}
    for text in ("lang", "=en", ""):
        with pytest.raises(SystemExit):
            parser.parse(["--where", text])
        assert "write KEY=VALUE" in capsys.readouterr().err


def test_documents_are_read_by_their_format(parser, tmp_path: Path):
    (tmp_path / "mill.md").write_text("# The mill\n\nIt grinds.\n")
    (tmp_path / "tide.txt").write_text("It turns.\n")
    files = [f"--document={tmp_path / name}" for name in ("mill.md", "tide.txt")]
    documents = request_options(parser.parse(files))["documents"]
    assert [d["title"] for d in documents] == ["The mill", "tide"]
    assert [d["text"].strip().splitlines()[-1] for d in documents] == ["It grinds.", "It turns."]
    with pytest.raises(InputError, match="gone"):
        request_options(parser.parse([f"--document={tmp_path / 'gone.txt'}"]))


@pytest.mark.parametrize(
    ("name", "words"), [("gone", "no such file"), (".", "is a directory"), ("x.odt", "unknown for")]
)
def test_a_document_without_a_format_that_is_known(name: str, words: str, parser, tmp_path: Path):
    (tmp_path / "x.odt").touch()
    with pytest.raises(InputError, match=f": {words}"):
        document_options(parser.parse(["--document", str(tmp_path / name)]))


def test_a_document_that_cannot_be_used_is_named_by_its_option(parser, tmp_path: Path):
    (tmp_path / "blank.txt").write_text(" ")
    with pytest.raises(InputError, match=r"^--document .*blank\.txt"):
        document_options(parser.parse(["--document", str(tmp_path / "blank.txt")]))
    (tmp_path / "long.txt").write_text("a word " * 200_000)
    with pytest.raises(InputError, match=r"^--document: they hold 1,4.* send less"):
        document_options(parser.parse(["--document", str(tmp_path / "long.txt")]))
