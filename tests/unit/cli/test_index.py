"""What `heddle index` says at its end."""

from pathlib import Path

import pytest

from heddle.app.index_paths import IndexReport
from heddle.app.indexing.documents import Embedded
from heddle.cli.index import print_report, skipped_lines
from heddle.cli.main import command_parser, main
from heddle.corpus.file_discovery import FileNote
from heddle.corpus.ingestion import IngestReport
from heddle.corpus.place import CorpusPlace

NINE = Embedded(9)


def report(
    gone: tuple[str, ...] = (),
    failures: tuple[FileNote, ...] = (),
    embedded: Embedded = NINE,
    without_documents: tuple[str, ...] = (),
) -> IndexReport:
    documents = IngestReport(
        added=1,
        changed=2,
        unchanged=3,
        removed=4,
        chunks=9,
        files=5,
        files_unchanged=len(without_documents),
        without_documents=without_documents,
        gone=gone,
        skipped=(),
        failures=failures,
    )
    return IndexReport(documents, embedded=embedded, vectors=70, revision=8)


def test_unchanged_files_without_documents_are_named(capsys: pytest.CaptureFixture[str]):
    assert print_report(report(without_documents=("a.txt", "b.txt")), CorpusPlace.of("c")) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "files unchanged since the last run, not read: 2",
        "of these, without documents (deleted, or no text): 2 (such as a.txt); to read such a file "
        "again:  heddle docs c add FILE",
    ]


def test_counts_and_what_to_do_next(capsys: pytest.CaptureFixture[str]):
    assert print_report(report(), CorpusPlace.of("corpus")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "documents: 1 new, 2 changed, 3 unchanged, 4 removed",
        "chunks embedded now: 9; searchable: 70",
        'ask it:  heddle ask corpus "your question"',
    ]


def test_texts_that_were_too_long_are_told(capsys: pytest.CaptureFixture[str]):
    print_report(report(embedded=Embedded(9, truncated=2)), CorpusPlace.of("corpus"))
    assert "cut to its length: 2 chunks; --long-texts window reads all" in capsys.readouterr().out
    print_report(report(embedded=Embedded(9, windowed=3)), CorpusPlace.of("corpus"))
    assert "read in windows: 3 chunks" in capsys.readouterr().out


def test_lost_files_are_told_with_the_way_to_delete_them(capsys: pytest.CaptureFixture[str]):
    assert print_report(report(gone=("/a/x.md", "/a/y.md")), CorpusPlace.of("corpus")) == 0
    said = capsys.readouterr().out
    assert "files gone, their documents kept: 2 (such as /a/x.md); --prune deletes them\n" in said


def test_failures_make_the_exit_code(capsys: pytest.CaptureFixture[str]):
    failed = report(failures=(FileNote("/a/x.pdf", "no PDF"),))
    assert print_report(failed, CorpusPlace.of("corpus")) == 1
    assert capsys.readouterr().err == "error: /a/x.pdf: no PDF\n"


def test_a_wrong_kind_of_index_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        command_parser("index").parse(["notes", "--into", "corpus", "--index-kind", "foo"])
    refusal = capsys.readouterr().err
    assert all(f"'{mode}'" in refusal for mode in ("foo", "auto", "exact", "graph"))


def test_files_that_were_skipped_for_one_reason_are_one_line():
    notes = [FileNote(f"{n}.json", "unknown format") for n in range(30)]
    assert list(skipped_lines([*notes, FileNote("a.txt", "empty")])) == [
        "skipped 30 files, such as 0.json, 1.json, 2.json: unknown format",
        "skipped a.txt: empty",
    ]
    assert list(skipped_lines(notes[:3])) == [
        "skipped 3 files, 0.json, 1.json, 2.json: unknown format"
    ]


def test_no_file_is_indexed_for_everybody_where_a_tenant_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "salaries.txt").write_text("Ann earns 5.")
    arguments = [str(tmp_path / "salaries.txt"), "--into", str(tmp_path / "corpus")]
    assert main(["index", *arguments, "--tenant", "acme"]) == 2
    assert "--tenant is for --delete" in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize(
    "more", [["--prune"], ["--chunk-tokens", "99"], ["--pgvector", "none"], ["--prime"]]
)
def test_a_deletion_takes_no_option_that_is_for_files(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    delete = ["index", "--into", str(tmp_path / "corpus"), "--delete", "a"]
    assert main([*delete, *more]) == 2
    assert f"{more[0]} is for files, and --delete reads none" in capsys.readouterr().err
