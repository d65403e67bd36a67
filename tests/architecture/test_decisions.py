"""Decisions have one form, and the table of them says the same."""

import re
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "adr"
ADRS: Final = sorted(FOLDER.glob("[0-9]*.md"))
TITLE: Final = re.compile(r"# ADR (\d+): (\S.*)")
NARROWED: Final = r"accepted(?:, narrowed by ADR \d+(?: and \d+)?)?"
STATUS: Final = re.compile(rf"Status: ({NARROWED}|superseded by ADR \d+) \((\d{{4}}-\d\d-\d\d)\)")


@pytest.mark.parametrize("page", [*ADRS, FOLDER / "template.md"], ids=lambda page: page.stem)
def test_a_decision_has_the_form_of_the_template(page: Path) -> None:
    first, blank, status, after = page.read_text(encoding="utf-8").splitlines()[:4]
    if page.stem == "template":
        first, status = first.replace("N", "1"), status.replace("YYYY-MM-DD", "2026-11-21")
    assert TITLE.fullmatch(first)
    assert STATUS.fullmatch(status)
    assert (blank, after) == ("", "")
    assert "**Decision.**" in page.read_text(encoding="utf-8")


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(page.name[:4]) for page in ADRS]
    assert numbers == list(range(1, len(ADRS) + 1))


def test_the_table_says_what_the_decisions_say() -> None:
    rows = []
    for page in ADRS:
        first, _, status = page.read_text(encoding="utf-8").splitlines()[:3]
        heading, stands = TITLE.fullmatch(first), STATUS.fullmatch(status)
        assert heading is not None
        assert stands is not None
        assert int(heading[1]) == int(page.name[:4]), page.name
        rows.append(f"| {heading[1]} | [{heading[2]}]({page.name}) | {stands[1]} | {stands[2]} |")
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \d.*$", table, re.MULTILINE) == rows
