"""Every page is reached from the index, names what is there, and keeps to its form."""

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from heddle.app.server_config import ServerConfig
from heddle.core.degradation import DegradationKind
from heddle.runtime.receipt import Receipt
from tests.helpers.pages import CODE, anchors

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(DOCS.rglob("*.md"))
BESIDE: Final = ("*.md", "examples/*.md", "models/**/*.md", "tests/*.md")
LINKED: Final = [*PAGES, *(page for beside in BESIDE for page in sorted(ROOT.glob(beside)))]
LINK: Final = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
DOORS: Final = ("Start", "Guide", "Reference", "Design", "Results", "Development")
PAGES_IN_A_FOLDER_MAX: Final = 24
README_LINES_MAX: Final = 100
STATES: Final = {"works", "new", "missing"}
CHANGES: Final = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
# Of the design pages: the folder that paths are below, beside heddle/ and the root.
ENGINES: Final = {
    "embedding-engine": "embedding",
    "llm-engine": "llm",
    "reading-engine": "reading",
    "vector-engine": "vector",
}
DESIGN: Final = sorted({*DOCS.glob("design/*.md")} - {DOCS / "design/kv-fusion-properties.md"})
SOURCE: Final = re.compile(r"`([\w/]+\.py)`(?: \|)?((?:,? `(?![\w/]+\.py`)[\w.]+`)*)")
ANY_SOURCE: Final = re.compile(r"`((?:[\w-]+/)+[\w-]+\.py)(?=[`:])")
CODE_FOLDERS: Final = ("heddle", "tests", "benchmarks", "tools", "examples", "models")
OTHER_FLAGS: Final = (("generator", "model"), ("prompt_file", "prompt"))
GLOSSARY: Final = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")


def links(page: Path) -> Iterator[str]:
    """Return what a page links to inside the repository."""
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:", target):
            yield target


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_no_link_is_broken(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = {(page.parent / target.partition("#")[0]).resolve() for target in links(page)}
        waiting += [path for path in targets & set(PAGES) if path not in reached]
    assert [name(page) for page in PAGES if page not in reached] == []


def test_the_readme_leads_to_the_index() -> None:
    assert "docs/index.md" in set(links(ROOT / "README.md"))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES_MAX


def test_the_index_has_a_door_for_each_folder() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^## (.+)$", index, re.MULTILINE)) == DOORS
    folders = {path.parent for path in PAGES} - {DOCS, DOCS / "adr"}
    assert {folder.name.capitalize() for folder in folders} == set(DOORS)


def test_a_folder_of_pages_can_be_taken_in() -> None:
    folders = Counter(page.parent.name for page in PAGES if page.parent.name != "adr")
    assert max(folders.values()) <= PAGES_IN_A_FOLDER_MAX, folders


def sources(page: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the sources that a design page names, and the names that stand right behind each."""
    places = [ROOT / "heddle", ROOT / "heddle/engines" / ENGINES.get(page.stem, ""), ROOT]
    for path, names in SOURCE.findall(page.read_text(encoding="utf-8")):
        there = [place / path for place in places if (place / path).is_file()]
        assert there, f"{name(page)} names {path}, which is not there"
        yield there[0], re.findall(r"`([\w.]+)`", names)


@cache
def defined(path: Path) -> frozenset[str]:
    """Return what a file defines: NAME, CLASS.NAME, and of a class's members NAME alone, too."""
    found = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        own = names_of(node)
        found |= own
        if isinstance(node, ast.ClassDef):
            members = {member for part in node.body for member in names_of(part)}
            found |= members | {f"{node.name}.{member}" for member in members}
    return frozenset(found)


def names_of(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    match node:
        case ast.FunctionDef(name=one) | ast.AsyncFunctionDef(name=one) | ast.ClassDef(name=one):
            return {one}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=one)):
            return {one}
    return set()


@pytest.mark.parametrize("page", DESIGN, ids=name)
def test_what_a_design_page_names_is_in_its_file(page: Path) -> None:
    for path, named in sources(page):
        for one in named:
            assert one in defined(path), f"{one} is not in {name(path)}"


def test_each_question_names_a_file_and_what_decides_in_it() -> None:
    table = (DOCS / "design/where.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in re.findall(r"^\| .+$", table, re.MULTILINE)]
    rows = [row for row in rows if row[0] != "question"]
    assert len(rows) > 80
    for question, files, names in rows:
        *_, path = re.findall(r"`([\w/]+\.py)`", files)
        named = set(re.findall(r"`([\w.]+)`", names))
        assert named, question
        assert named <= defined(ROOT / "heddle" / path), f"{question}: {path} has no {names}"


def test_no_page_names_a_source_that_is_gone() -> None:
    there = {name(path) for one in CODE_FOLDERS for path in (ROOT / one).rglob("*.py")}
    ends = {path.split("/", start)[-1] for path in there for start in range(path.count("/"))}
    gone = [
        (name(page), path)
        for page in PAGES
        for path in ANY_SOURCE.findall(page.read_text(encoding="utf-8"))
        if path not in ends
    ]
    assert gone == []


def test_design_pages_name_sources_at_all() -> None:
    named = [one for page in DESIGN for _, names in sources(page) for one in names]
    assert len(named) > 100
    assert {"plan_substage", "PageLedger.evict_coldest", "speculation_cost_s"} <= set(named)


def test_each_row_of_the_status_page_has_a_state_and_a_page() -> None:
    text = (DOCS / "status.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in re.findall(r"^\| .+$", text, re.MULTILINE)]
    rows = [[cell.strip() for cell in row] for row in rows if row[0].strip() != "feature"]
    assert len(rows) > 50
    assert [row for row in rows if len(row) != 5 or row[1] not in STATES or not row[4]] == []
    assert [row for row in rows if row[1] != "missing" and not row[3]] == [], "tested on?"


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert [v for v in versions[1:] if not re.fullmatch(r"\[[\d.]+\] - \d{4}-\d\d-\d\d", v)] == []
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= CHANGES


def test_a_word_has_one_entry_in_the_glossary() -> None:
    entries, _, _ = GLOSSARY.partition("## Words with one meaning")
    rows = re.findall(r"^\| (\*\*.*?) \| ", entries, re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"\*\*(.*?)\*\*", row)]
    assert len(words) > 40
    assert [word for word in set(words) if words.count(word) > 1] == []


def settings() -> Iterator[list[list[str]]]:
    """Return the rows of the table of settings: what each cell sets in backticks."""
    table, _, _ = GLOSSARY.partition("## Workflows")
    for row in re.findall(r"^\| `.*$", table, re.MULTILINE):
        yield [re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|")]


def test_a_setting_has_one_name_everywhere() -> None:
    rows = [row for row in settings() if row[1] and row[0] != ["DIR"]]
    assert len(rows) > 20
    for flags, fields, variables, *_ in rows:
        for flag, field, variable in zip(flags, fields, variables, strict=True):
            named = flag.removeprefix("--").replace("-", "_")
            assert variable == f"HEDDLE_{named.upper()}"
            assert field == named or (field, named) in OTHER_FLAGS


def test_every_kind_of_degradation_is_named() -> None:
    page = (DOCS / "guide" / "serving.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if "heddle_degradations_total" in line]
    assert [kind.value for kind in DegradationKind if f"`{kind.value}`" not in row] == []


def test_the_settings_metrics_and_receipt_fields_are_there() -> None:
    fields = {field.name for field in dataclasses.fields(ServerConfig)}
    counts = {field.name for field in dataclasses.fields(Receipt)}
    metrics = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    for _, settings_, _, metrics_, counts_, _ in settings():
        assert set(settings_) <= fields
        assert set(counts_) <= counts
        for metric in metrics_:
            assert f"`{metric.rstrip('*')}" in metrics, metric
