"""Every parser on broken input: documents or an InputError, nothing else."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.core.errors import InputError
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import parse_file
from tests.unit.corpus.parsing.archives import docx, epub, pptx
from tests.unit.corpus.parsing.pdfs import pdf

PAGE = b"<html><body><nav>x</nav><main><h1>A</h1><p>b <a href='#'>c</a><pre>d</pre></main></body>"
GOOD = {
    ".html": lambda: PAGE,
    ".pdf": lambda: pdf("Hello pages", "Second page", title="T"),
    ".docx": docx,
    ".pptx": pptx,
    ".epub": lambda: epub("<h1>One</h1><p>text</p>"),
    ".csv": lambda: b'name,depth\n"a, b",12\n',
    ".md": lambda: b"---\ntitle: x\n---\n# A\n\ntext\n```\n# b\n",
    ".jsonl": lambda: b'{"id": "x", "text": "y"}\n',
    ".txt": lambda: b"text\n\nmore text",
}
LIMITS = ParseLimits(file_bytes_max=10**6, archive_bytes_max=10**7, text_chars_max=10**6)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=20)), min_size=1, max_size=6
)


@cache
def good(suffix: str) -> bytes:
    return GOOD[suffix]()


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        documents = list(parse_file(path, LIMITS))
    except InputError as error:
        documents = [] if path.name in str(error) else None
    assert documents is not None, "an error that names no file"
    for document in documents:
        found = chunk_document(document, Chunking())
        assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in found)
        document.text.encode()


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(edits=EDITS)
@pytest.mark.parametrize("suffix", GOOD)
def test_a_file_that_was_damaged(tmp_path, suffix, edits):
    content = good(suffix)
    for place, gone, put in edits:
        at = int(place * len(content))
        content = content[:at] + put + content[at + gone :]
    check(tmp_path / f"a{suffix}", content)


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=st.binary(max_size=400))
@pytest.mark.parametrize("suffix", GOOD)
def test_any_bytes(tmp_path, suffix, content):
    check(tmp_path / f"a{suffix}", content)


TAG_WORDS = (
    "<div> </div> <nav> </nav> <a> </a> <p> <pre> </pre> <h2> </h2> <main> </main> <table> <tr>"
    " <td> </table> <!-- --> <script> </script> <form> text ¶ Next <title> </title> &amp; & <"
    " <article> </article> <li> <aside> </body> </html> <div~class='toc'>"
)
TAGS = st.sampled_from([tag.replace("~", " ") for tag in TAG_WORDS.split(" ")])


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(parts=st.lists(TAGS, max_size=40))
def test_any_tags(tmp_path, parts):
    check(tmp_path / "a.html", " ".join(parts).encode())
