"""A file that makes its parser hang, swell or break down costs itself, and no other file."""

import contextlib
import logging
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from heddle.core.errors import InputError
from heddle.corpus.document import Document, Heading
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import KNOWN_SUFFIXES, is_intricate, parse_file
from heddle.corpus.parsing.parser_messages import document_fields, document_of, pack, unpack
from tests.helpers.logged import logged

PAGE = "<title>Rock 3</title><h1>Keeper</h1><p>Orla Venn keeps it, \U0001f98a and naïve.</p>"
SLOW = "<p>word</p>" * 1_500_000  # some seconds of CPU time


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    return path


def refusal(parser: GuardedParser, path: Path) -> str:
    with pytest.raises(InputError) as refused:
        list(parser.documents(path))
    return str(refused.value)


def test_it_gives_what_parsing_here_gives_and_keeps_its_process(page: Path) -> None:
    with GuardedParser() as parser:
        assert parser.pid is None
        first, pid = list(parser.documents(page)), parser.pid
        assert first == list(parse_file(page))
        assert list(parser.documents(page)) == first
        assert parser.pid == pid != os.getpid()
    assert parser.pid is None


def test_plain_formats_need_no_process(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Rock 3\n\nOrla Venn keeps it.")
    with GuardedParser() as parser:
        assert list(parser.documents(path)) == list(parse_file(path))
        assert parser.pid is None


def test_what_is_intricate() -> None:
    assert {suffix for suffix in KNOWN_SUFFIXES if is_intricate(Path("a" + suffix))} == {
        ".html",
        ".htm",
        ".xhtml",
        ".html.gz",
        ".htm.gz",
        ".xhtml.gz",
        ".pdf",
        ".pdf.gz",
        ".docx",
        ".pptx",
        ".epub",
    }
    assert not is_intricate(Path("a.exe"))


def test_a_document_comes_through_whole() -> None:
    document = Document(
        "id",
        "title",
        "text \U0001f98a \u2028",
        "source",
        has_headings=True,
        tenant="t",
        metadata=(("a", "b"),),
        headings=(Heading(1, "words", 0, 5),),
        pages=(0, 7),
    )
    packed = pack(document_fields(document))
    assert document_of(unpack(packed[8:])) == document


def test_a_refused_file_names_its_reason_and_the_next_is_read(page: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing that a reader could use")
    with GuardedParser() as parser:
        assert "not a readable PDF" in refusal(parser, broken)
        pid = parser.pid
        assert list(parser.documents(page))
        assert parser.pid == pid


def test_a_file_that_takes_too_much_cpu_time(page: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow.html"
    slow.write_text(SLOW)
    with GuardedParser(ParseLimits(cpu_s_max=0.5)) as parser:
        assert refusal(parser, slow) == (
            f"{slow}: took more than 0.5 CPU seconds to read, the limit for a file; split it"
        )
        assert list(parser.documents(page))


def test_a_file_that_takes_too_long_by_the_clock(page: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless.html"
    os.mkfifo(endless)  # whose opening waits for a writer
    with GuardedParser(ParseLimits(wall_s_max=1.0)) as parser:
        assert refusal(parser, endless) == (
            f"{endless}: took more than 1 s to read, the limit for a file; split it"
        )
    with GuardedParser() as parser:
        assert list(parser.documents(page))


def test_a_file_that_takes_too_much_memory(page: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.html"
    large.write_text("<p>" + "word " * 20_000_000)
    with GuardedParser(ParseLimits(memory_bytes_max=300_000_000)) as parser:
        assert refusal(parser, large) == (
            f"{large}: takes more than 0.3 GB of memory to read; split it"
        )
        assert list(parser.documents(page))


def test_a_parser_that_breaks_down(page: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless.html"
    os.mkfifo(endless)
    with GuardedParser() as parser:
        list(parser.documents(page))
        pid = parser.pid
        assert pid is not None

        def break_it() -> None:
            # Once it can be written to, the process is at this file; it must not end for that.
            with endless.open("wb"):
                os.kill(pid, signal.SIGSEGV)

        thread = threading.Thread(target=break_it)
        thread.start()
        said = refusal(parser, endless)
        thread.join()
        assert said.startswith(f"{endless}: its parser broke down (SIGSEGV)")
        assert list(parser.documents(page))
        assert parser.pid != pid


def test_one_that_died_between_two_files_is_started_again(page: Path) -> None:
    with GuardedParser() as parser:
        list(parser.documents(page))
        pid = parser.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while not _is_gone(pid):
            time.sleep(0.001)
        assert list(parser.documents(page))
        assert parser.pid != pid


def test_a_file_is_read_where_more_than_1023_descriptors_are_open(page: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        while opened.enter_context(open(os.devnull, "rb")).fileno() < 1024:
            pass
        with GuardedParser() as parser:
            assert list(parser.documents(page)) == list(parse_file(page))


def test_a_worn_process_is_replaced(page: Path) -> None:
    # Its modules alone take more than half of this.
    limits = ParseLimits(file_bytes_max=10**6, memory_bytes_max=60 * 10**6)
    with GuardedParser(limits) as parser:
        assert list(parser.documents(page))
        assert parser.pid is None
        assert list(parser.documents(page))


def test_what_a_parser_logs_is_logged_here(tmp_path: Path) -> None:
    old = tmp_path / "old.html"
    old.write_bytes(b"<p>na\xefve</p>")
    with (
        GuardedParser() as parser,
        logged(logging.getLogger("heddle.corpus.parsing.decoding")) as lines,
    ):
        assert list(parser.documents(old))
    assert any("read as cp1252" in line for line in lines)


def _is_gone(pid: int) -> bool:
    """Whether a child has ended; it stays a zombie until it is waited for."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
