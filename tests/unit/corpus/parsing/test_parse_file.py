"""Every format, and every way a file can be bad."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heddle.core.errors import InputError
from heddle.corpus.document import Document
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import parse_file
from heddle.corpus.sections import headings
from tests.unit.corpus.parsing.pdfs import encrypted, pdf

CPU_S_MAX = 60  # of a process that would take hours


def parse(path: Path, content: str | bytes, **limits: int) -> list[Document]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(parse_file(path, ParseLimits(**limits)))


def one(path: Path, content: str | bytes) -> Document:
    (document,) = parse(path, content)
    return document


def test_text(tmp_path):
    path = tmp_path / "my notes.txt"
    text = "# no heading\r\n\r\ncafé"
    expected = Document(str(path), "my notes", "# no heading\n\ncafé", str(path))
    assert one(path, text) == expected


def test_an_empty_file_is_a_document_without_text(tmp_path):
    assert one(tmp_path / "empty.txt", "").text == ""
    assert one(tmp_path / "empty.md", "").text == ""
    assert one(tmp_path / "empty.html", "").text == ""
    assert parse(tmp_path / "empty.jsonl", "") == []


@pytest.mark.parametrize("name", ["missing.txt", "missing.pdf", "missing.jsonl", "missing.html"])
def test_a_missing_file(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name}: no such file"):
        list(parse_file(tmp_path / name))


def test_a_directory_is_no_file(tmp_path):
    (tmp_path / "directory.txt").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        list(parse_file(tmp_path / "directory.txt"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "secret.txt").chmod(0)
    with pytest.raises(InputError, match="no permission"):
        list(parse_file(tmp_path / "secret.txt"))


def test_an_unknown_format(tmp_path):
    with pytest.raises(InputError, match=r"a\.odt: unknown format; known are .*\.pdf"):
        parse(tmp_path / "a.odt", "x")


@pytest.mark.parametrize("name", ["junk.txt", "junk.md", "junk.html"])
def test_binary_junk(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name}: looks like binary"):
        parse(tmp_path / name, b"\x7fELF\x02\x01\x00\x00\xff\xfe")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.pdf"])
def test_a_file_that_is_too_large(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name}: .*over the limit.*split it"):
        parse(tmp_path / name, "x" * 101, file_bytes_max=100)


# Markdown


def test_markdown_takes_its_title_from_the_first_heading(tmp_path):
    document = one(tmp_path / "a.md", "intro\n\n## Two\n\n# One\n\ntext")
    assert document.title == "One"
    assert document.has_headings
    assert one(tmp_path / "b.markdown", "no heading").title == "b"


def test_front_matter_is_no_text(tmp_path):
    document = one(tmp_path / "a.md", '---\ntitle: "My Page"\ntags: [x]\n---\n\n# One\ntext')
    assert document.title == "My Page"
    assert document.text == "\n# One\ntext"
    assert one(tmp_path / "b.md", "---\n\ntext without an end").text.startswith("---")
    keys = "---\n# a comment\ntags:\n- x\nmore: [\n  y\n]\n\ntitle: It's\n--- \ntext"
    document = one(tmp_path / "c.md", keys)
    assert (document.title, document.text) == ("It's", "text")
    assert one(tmp_path / "d.md", "---\n---\ntext").text == "text"
    folded = "---\ntitle: >-\n  A long\n  title\n---\n# Wells\ntext"
    assert one(tmp_path / "e.md", folded).title == "Wells"
    assert one(tmp_path / "f.md", "---\ntitle: >9000\n---\ntext").title == ">9000"


@pytest.mark.parametrize(
    "between", ["# Wells\n\nThe first is deep.", "- an item\n- another", "Ore."]
)
def test_text_between_two_rules_is_kept(tmp_path, between):
    text = f"---\n{between}\n\n---\nMore."
    assert one(tmp_path / "a.md", text).text == text


def test_a_long_title_in_front_matter_takes_no_hours(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("---\ntitle: a" + " " * 2_000_000 + "b\n---\ntext")
    read = (
        f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S_MAX}, {CPU_S_MAX}))\n"
        "from pathlib import Path\n"
        "from heddle.corpus.parsing.parse_file import parse_file\n"
        f"print([one.text for one in parse_file(Path({str(path)!r}))])"
    )
    done = subprocess.run([sys.executable, "-c", read], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (0, b"['text']\n")


# HTML


def test_html(tmp_path):
    page = """<!DOCTYPE html><html><head><title> My
    page </title><style>p { color: red }</style><script>if (a < b) { x("<p>") }</script></head>
    <body><h1>Top</h1><p>One &amp; <b>two</b> caf&eacute;.</p><!-- hidden -->
    <div>Block<ul><li>first</li><li>second</li></ul></div>
    <h2>Code <i>here</i></h2><pre># comment
  indented</pre><table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>
    <svg><text>drawn</text></svg><p>Line<br>break</body></html>"""
    document = one(tmp_path / "a.html", page)
    assert document.title == "My page"
    assert document.text == (
        "# Top\n\nOne & two café.\n\nBlock\n\n- first\n- second\n\n## Code here\n\n"
        "```\n# comment\n  indented\n```\n\na | b\nc | d\n\nLine\nbreak"
    )


def test_html_without_a_title(tmp_path):
    assert one(tmp_path / "a.html", "<h2>First</h2><p>x").title == "First"
    assert one(tmp_path / "b.htm", "<p>x").title == "b"


def test_html_with_markdown_in_its_code(tmp_path):
    page = "<p>Like so:</p><pre># no heading\n```\n# comment\n```\nx</pre><h1>Real</h1><p>text</p>"
    document = one(tmp_path / "a.html", page)
    assert [heading.text for heading in headings(document)] == ["Real"]


def test_html_that_is_broken(tmp_path):
    page = "<div><p>one<script>x</p><p>two</script><p>three</div></div></pre></h1><pre>four"
    assert one(tmp_path / "a.html", page).text == "one\n\nthree\n\n```\nfour\n```"


def test_what_a_page_spells_as_references_is_cleaned_as_well(tmp_path):
    page = "<title>A&#7;B</title><p>c&#27;[1md</p><pre>e&#13;f&#8232;g</pre>"
    found = one(tmp_path / "a.html", page)
    assert (found.title, found.text) == ("A B", "c [1md\n\n```\ne\nf\ng\n```")


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("<meta charset='koi8-r'>", "koi8-r"),
        ('<META http-equiv=Content-Type content="text/html; charset = windows-1251">', "cp1251"),
        ('<?xml version="1.0" encoding="windows-1251"?>', "cp1251"),
    ],
)
def test_pages_in_the_encoding_that_they_declare(tmp_path, head, encoding):
    page = f"{head}<html><body><p>Жук летит</p></body></html>".encode(encoding)
    assert one(tmp_path / "a.xhtml", page).text == "Жук летит"


def test_a_page_that_calls_itself_latin_1_is_read_as_browsers_do(tmp_path):
    page = "<meta charset=iso-8859-1><p>I don’t “know”…</p>".encode("cp1252")
    assert one(tmp_path / "a.html", page).text == "I don’t “know”…"


def test_html_with_its_own_charset(tmp_path):
    page = '<meta charset="koi8-r"><p>Жук'.encode("koi8-r")
    assert one(tmp_path / "a.html", page).text == "Жук"


# PDF


def test_pdf(tmp_path):
    document = one(tmp_path / "a.pdf", pdf("Hello pages", "Second page"))
    assert document.title == "a"
    assert document.text.split("\n\n") == ["Hello pages", "Second page"]
    assert one(tmp_path / "b.pdf", pdf("x", title="My Title")).title == "My Title"


def test_pdf_words_are_joined_across_lines(tmp_path):
    assert "example" in one(tmp_path / "a.pdf", pdf("an exam-\nple")).text


def test_pdf_with_an_empty_password(tmp_path):
    assert one(tmp_path / "a.pdf", encrypted(pdf("Hello"), "")).text == "Hello"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encrypted(pdf("Hello"), "secret"), "encrypted"),
        (pdf(""), "a scan without text: OCR it first"),
        (pdf("Hello")[:200], "not a readable PDF"),
        (b"", "not a readable PDF"),
        (b"not a PDF at all", "not a readable PDF"),
        (b"%PDF-1.4\n" + bytes(range(256)) * 20, "not a readable PDF"),
    ],
)
def test_a_pdf_that_can_not_be_read(tmp_path, content, reason):
    with pytest.raises(InputError, match=rf"bad\.pdf: {reason}"):
        parse(tmp_path / "bad.pdf", content)


# JSONL


def test_jsonl(tmp_path):
    lines = [
        {"id": "x", "title": "T", "text": "one", "other": [1]},
        {"id": 7, "text": "two"},
        {"text": "three\r\n"},
    ]
    path = tmp_path / "set.jsonl"
    content = "\n".join(json.dumps(line) for line in lines)
    assert parse(path, "\ufeff" + content.replace("\n", "\n\n")) == [
        Document("x", "T", "one", str(path)),
        Document("7", "set", "two", str(path)),
        Document(f"{path}#5", "set", "three\n", str(path)),
    ]
    packed = tmp_path / "set.jsonl.gz"
    assert [d.text for d in parse(packed, gzip.compress(content.encode()))] == [
        "one",
        "two",
        "three\n",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"not json", "not JSON"),
        (b'{"text": "cut of', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": "x", "n": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'["text"]', "must be a JSON object, is a list"),
        (b'{"title": "x"}', 'needs a field "text"'),
        (b'{"text": 5}', 'needs a field "text"'),
        (b'{"text": "x", "title": 5}', '"title" must be'),
        (b'{"text": "x", "id": [1]}', '"id" must be'),
        (b'{"text": "x", "id": true}', '"id" must be'),
        (b'{"text": "x", "tenant": 0}', '"tenant" must be'),
        (b'{"text": "x", "tenant": "\\u0000"}', '"tenant" must have no control'),
        (b'{"text": "x", "tenant": "a\\u2028b"}', '"tenant" must have no control'),
        (b'{"text": "x", "tenant": "\\ud800"}', '"tenant" must have no control'),
        (b'{"text": "x", "metadata": []}', "metadata must be a mapping"),
        (b'{"text": "\xff"}', "not UTF-8"),
        (b"\x7fELF\x00\x00", "not JSON"),
    ],
)
def test_a_bad_line_is_named_after_the_good_ones_before_it(tmp_path, line, reason):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n' + line + b'\n{"text": "never"}\n')
    documents = parse_file(path)
    assert next(documents).text == "good"
    with pytest.raises(InputError, match=rf"a\.jsonl, line 3: {reason}"):
        next(documents)


def test_half_a_character_in_json_is_replaced(tmp_path):
    document = one(
        tmp_path / "a.jsonl", r'{"text": "bad \ud800", "title": "\udfff", "id": "\ud801"}'
    )
    assert (document.text, document.title, document.id) == ("bad \ufffd", "\ufffd", "\ufffd")


def test_a_line_that_is_too_long(tmp_path):
    content = json.dumps({"text": "x" * 200})
    with pytest.raises(InputError, match="line 1: over the limit"):
        parse(tmp_path / "a.jsonl", content, line_bytes_max=100)


def test_a_file_that_decompresses_without_end(tmp_path):
    content = gzip.compress((json.dumps({"text": "x" * 50}) + "\n").encode() * 100)
    with pytest.raises(InputError, match=r"line 16: over the limit of .*split it"):
        parse(tmp_path / "a.jsonl.gz", content, stream_bytes_max=1000)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.rst.gz", b"Use\n===\nbody"),
        ("a.md.gz", b"# Use\nbody"),
        ("a.html.gz", b"<p>body</p>"),
        ("a.pdf.gz", pdf("body")),
    ],
)
def test_a_compressed_manual_is_read_as_its_plain_file(tmp_path, name, content):
    plain, packed = tmp_path / name.removesuffix(".gz"), tmp_path / name
    assert [(d.title, d.text) for d in parse(packed, gzip.compress(content))] == [
        (d.title, d.text) for d in parse(plain, content)
    ]


def test_a_compressed_manual_without_end(tmp_path):
    with pytest.raises(InputError, match=r"over the limit of .*split it"):
        parse(tmp_path / "a.txt.gz", gzip.compress(b"x" * 9_000), file_bytes_max=8_000)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.txt.gz"])
@pytest.mark.parametrize(
    "damage", [lambda c: c[:-20], lambda c: c[:40] + b"\xff" * 20 + c[60:], lambda c: b"text" + c]
)
def test_a_damaged_gzip_file(tmp_path, damage, name):
    content = gzip.compress("\n".join(json.dumps({"text": f"{n * n}"}) for n in range(99)).encode())
    with pytest.raises(InputError, match="damaged gzip file"):
        parse(tmp_path / name, damage(content))
