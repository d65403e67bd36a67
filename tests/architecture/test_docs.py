"""Every page is reached from the index, and the glossary keeps to its own rules."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from heddle.app.server_config import ServerConfig
from heddle.runtime.receipt import Receipt
from tests.helpers.pages import CODE, anchors

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(DOCS.rglob("*.md"))
BESIDE: Final = ("*.md", "examples/*.md", "models/**/*.md", "tests/*.md")
LINKED: Final = [*PAGES, *(page for beside in BESIDE for page in sorted(ROOT.glob(beside)))]
LINK: Final = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
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


def test_the_settings_metrics_and_receipt_fields_are_there() -> None:
    fields = {field.name for field in dataclasses.fields(ServerConfig)}
    counts = {field.name for field in dataclasses.fields(Receipt)}
    metrics = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    for _, settings_, _, metrics_, counts_, _ in settings():
        assert set(settings_) <= fields
        assert set(counts_) <= counts
        for metric in metrics_:
            assert f"`{metric.rstrip('*')}" in metrics, metric
