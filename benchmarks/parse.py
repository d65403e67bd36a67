"""Documents as people read them: furniture left, answers kept, and the speed on PDFs.

Documentation that Python and a Python package carry: IDLE's help page of the interpreter that runs
this, and the 78 pages of pygame's manual (`benchmarks/requirements.txt`).

* furniture_share: lines of page furniture (navigation, links to the page's source, footers) that
  are left, over those left when the pages are read whole, as Heddle did before;
* answers_kept: of the sentences in `support/kept_sentences.tsv`, the share that is still there.
  They were drawn before any output was looked at, at random with seed 21: from the sources that
  pygame's manual ships (one a page, two of long ones) and from the paragraphs of IDLE's page;
* x_pypdf: times pypdf's speed on the same PDFs: a manual of 300 pages that reportlab sets from
  Python's own language reference (`pydoc_data.topics`), and those found under /usr/share/doc.

PDFs are read in turns after an untimed round; the figures are medians over files of each file's
median. `characters_ratio` is Heddle's text over pypdf's, white space left out. trafilatura reads
the same pages where it is installed. Bars: 0.02 at most, 0.98 at least, 5 at least.
"""

import importlib.util
import logging
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from time import process_time
from typing import Any, Final

from heddle.corpus.parsing.html import parse_html
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.page_reader import read_page
from heddle.corpus.parsing.pdf import parse_pdf

REPETITIONS: Final = 5
PAGES: Final = 300
PAGES_QUICK: Final = 20
SENTENCES: Final = Path(__file__).parent / "support" / "kept_sentences.tsv"
INSTALLED: Final = Path("/usr/share/doc")
INSTALLED_MAX: Final = 8
LIMITS: Final = ParseLimits()
# Lines that Sphinx's themes put around a page's text.
FURNITURE: Final = re.compile(
    r"(?:- )?(?:index|modules|next|previous|Edit on GitHub|Report a Bug|Show Source|«"
    r"|[\w .]+ documentation »|.* Documentation »|The Python Standard Library »|Python »"
    r"|Graphical User Interfaces with Tk »|pygame C API »|Pygame Home \|\| .*"
    r"|(?:Most useful|Advanced) stuff: .*|Other: camera .*|© Copyright .*|Created using .*"
    r"|Last updated on .*|This page is licensed .*|.* Please donate\..*|See History and License .*)"
    r"|#+ (?:Navigation|This Page|Previous topic|Next topic|Table of Contents|Quick search"
    r"|pygame documentation)"
)

Text = Callable[[Path], str]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Read the pages and the PDFs; headline furniture_share, answers_kept and x_pypdf."""
    del seed  # nothing is drawn
    pages = _pages()
    readers: dict[str, Text] = {"before": _whole, "heddle": _heddle}
    if importlib.util.find_spec("trafilatura") is not None:
        readers["trafilatura"] = _trafilatura
    html = {name: _html_row(name, read, pages) for name, read in readers.items()}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "language-reference.pdf"
        _make_pdf(made, PAGES_QUICK if quick else PAGES)
        found = sorted(INSTALLED.glob("*/*.pdf"))[: 0 if quick else INSTALLED_MAX]
        pdfs = [_pdf_row(path, 1 if quick else REPETITIONS) for path in (made, *found)]
    before, now = html["before"], html["heddle"]
    return {
        "settings": {
            "pages": len(pages),
            "sentences": now["sentences"],
            "repetitions": REPETITIONS,
        },
        "rows": [*html.values(), *pdfs],
        "headline": {
            "furniture_share": now["furniture"] / before["furniture"],
            "answers_kept": now["kept"] / now["sentences"],
            "x_pypdf": statistics.median(row["x_pypdf"] for row in pdfs),
            "x_before_cpu": now["cpu_s"] / before["cpu_s"],
        },
    }


def _pages() -> dict[str, Path]:
    """Return the pages by the names that the list of sentences gives them."""
    idle = importlib.util.find_spec("idlelib")
    pygame = importlib.util.find_spec("pygame")
    if pygame is None or not pygame.submodule_search_locations:
        raise ModuleNotFoundError("pygame", name="pygame")
    root = Path(pygame.submodule_search_locations[0]) / "docs" / "generated"
    found = {str(path.relative_to(root))[:-5]: path for path in sorted(root.rglob("*.html"))}
    if idle is not None and idle.submodule_search_locations:
        found["idlelib/help"] = Path(idle.submodule_search_locations[0]) / "help.html"
    return {name: path for name, path in found.items() if path.is_file()}


def _html_row(name: str, read: Text, pages: dict[str, Path]) -> dict[str, Any]:
    started_s = process_time()
    texts = {page: read(path) for page, path in pages.items()}
    cpu_s = process_time() - started_s
    # IDLE's help differs between versions of Python: what its page lacks can't be kept.
    rows = (line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    wanted = [(p, s) for p, s in rows if p in pages and s in _words(_raw(pages[p]))]
    lost = [sentence for page, sentence in wanted if sentence not in _words(texts[page])]
    lines = (line.strip() for text in texts.values() for line in text.split("\n"))
    return {
        "part": "html",
        "reader": name,
        "furniture": sum(FURNITURE.fullmatch(line) is not None for line in lines),
        "sentences": len(wanted),
        "kept": len(wanted) - len(lost),
        "lost": lost,
        "characters": sum(map(len, texts.values())),
        "cpu_s": round(cpu_s, 3),
    }


def _raw(path: Path) -> str:
    """Return a page's words without its tags."""
    return unescape(re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8")))


def _words(text: str) -> str:
    return " ".join(text.split())


def _whole(path: Path) -> str:
    return read_page(path.read_text(encoding="utf-8")).text


def _heddle(path: Path) -> str:
    return next(parse_html(path, LIMITS)).text


def _trafilatura(path: Path) -> str:
    import trafilatura

    page = path.read_text(encoding="utf-8")
    return trafilatura.extract(page, output_format="txt", favor_recall=True) or ""


def _pdf_row(path: Path, repetitions: int) -> dict[str, Any]:
    """Read a PDF with both in turns."""
    contenders: dict[str, Text] = {
        "heddle": lambda p: next(parse_pdf(p, LIMITS)).text,
        "pypdf": _pypdf,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    solid = {}
    for round_number in range(repetitions + 1):
        for name, read in contenders.items():
            started_s = process_time()
            text = read(path)
            if round_number:  # the first one imports the libraries
                seconds[name].append(process_time() - started_s)
            solid[name] = len("".join(text.split()))
    ours_s, theirs_s = (statistics.median(seconds[name]) for name in ("heddle", "pypdf"))
    return {
        "part": "pdf",
        "file": path.name,
        "megabytes": round(path.stat().st_size / 1e6, 2),
        "cpu_s": round(ours_s, 4),
        "pypdf_cpu_s": round(theirs_s, 4),
        "x_pypdf": round(theirs_s / ours_s, 1),
        "characters_ratio": round(solid["heddle"] / solid["pypdf"], 3),
    }


def _pypdf(path: Path) -> str:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it reports each font that it can't read
    return "\n\n".join(page.extract_text() for page in PdfReader(path).pages)


def _make_pdf(path: Path, pages: int) -> None:
    """Set Python's language reference in two fonts, compressed, with a bookmark for each topic."""
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=A4, pageCompression=1)
    canvas.setTitle("The Python Language Reference")
    lines = _reference_lines()
    for page in range(pages):
        canvas.setFont("Times-Bold", 10)
        canvas.drawString(60, 800, f"The Python Language Reference {page + 1}")
        canvas.bookmarkPage(f"p{page}")
        canvas.addOutlineEntry(f"Page {page + 1}", f"p{page}")
        text = canvas.beginText(60, 780)
        for row in range(52):
            code = row % 13 == 12
            text.setFont("Courier" if code else "Times-Roman", 10)
            text.textLine(next(lines))
        canvas.drawText(text)
        canvas.showPage()
    canvas.save()


def _reference_lines() -> Iterator[str]:
    from pydoc_data.topics import topics

    while True:
        for name in sorted(topics):
            for line in topics[name].split("\n"):
                if line.strip():
                    yield line.rstrip()[:95].encode("latin-1", "replace").decode("latin-1")
