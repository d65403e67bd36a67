"""Extras, kinds and citations lead somewhere."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.core.primitives import PrimitiveKind
from tests.helpers.pages import anchors

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEVELOPERS = {
    "dev",
    "clients",
    "databases",
}  # tools that are run and clients of tests, not imported
# Distributions whose module has another name; dashes are read as underscores.
MODULES = {
    "faiss-cpu": "faiss",
    "python-docx": "docx",
    "python-pptx": "pptx",
    "haystack-ai": "haystack",
    "llama-index-core": "llama_index",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
SOURCES = sorted((ROOT / "heddle").rglob("*.py"))
CITATION = re.compile(r"docs/[\w./-]+\.md(?:#[\w-]+)?|\bADR (\d+)")


def module_of(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return MODULES.get(name[0], name[0].replace("-", "_")).lower()


def imported_modules() -> set[str]:
    """Return the top-level names that heddle imports anywhere, and the packages of its models.

    Models are found by their names or entry points, never imported.
    """
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found | {path.name for path in (ROOT / "models").glob("*/heddle_*")}


IMPORTED = imported_modules()


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - DEVELOPERS))
def test_what_an_extra_installs_is_imported(extra: str) -> None:
    assert {module_of(requirement) for requirement in EXTRAS[extra]} <= IMPORTED


def test_what_is_required_is_imported() -> None:
    assert {module_of(requirement) for requirement in PROJECT["dependencies"]} <= IMPORTED


def test_a_package_that_no_line_imports_would_be_seen() -> None:
    assert module_of("hayhooks>=1.0") not in IMPORTED
    assert module_of("prometheus-client>=0.21,<1") in IMPORTED


def test_only_heddle_is_installed() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["setuptools"]["packages"]["find"]["include"] == ["heddle*"]


def citations() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for match in CITATION.finditer(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), match[0]


def test_no_file_cites_a_document_that_is_not_here() -> None:
    assert [p.name for p in SOURCES if "DESIGN §" in p.read_text(encoding="utf-8")] == []
    decisions = {int(path.name[:4]) for path in (ROOT / "docs/adr").glob("0*.md")}
    gone = []
    for path, cited in citations():
        if cited.startswith("ADR"):
            is_here = int(cited.removeprefix("ADR ")) in decisions
        else:
            name, _, anchor = cited.partition("#")
            page = ROOT / name
            is_here = page.is_file() and (not anchor or anchor in anchors(page))
        if not is_here:
            gone.append((path, cited))
    assert gone == []


def test_citations_are_found_at_all() -> None:
    found = dict((cited, path) for path, cited in citations())
    assert "docs/design/architecture.md#what-lasts" in found
    assert "ADR 11" in found


def kinds_named_below(*folders: str) -> set[str]:
    """Return the names of primitive kinds that the modules of these folders mention."""
    text = "".join(
        path.read_text(encoding="utf-8")
        for folder in folders
        for path in (ROOT / "heddle" / folder).rglob("*.py")
    )
    return set(re.findall(r"PrimitiveKind\.([A-Z_]+)", text))


def test_every_kind_is_made_by_a_lowering_or_a_pass() -> None:
    made = {PrimitiveKind[name] for name in kinds_named_below("lowering", "passes")}
    assert set(PrimitiveKind) == made
