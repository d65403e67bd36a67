"""Each figure is drawn from its results, and shown on a page of theirs."""

from xml.etree import ElementTree

import pytest

from tools.plots import FIGURES, PLOTS, RESULTS, drawn

TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.mark.parametrize("name", FIGURES)
def test_it_is_drawn_and_shown(name):
    root = ElementTree.fromstring(drawn(name))
    kept = ElementTree.parse(PLOTS / f"{name}.svg").getroot()
    assert [text.text for text in root.iter(TEXT)] == [text.text for text in kept.iter(TEXT)]
    pages = [page.read_text(encoding="utf-8") for page in RESULTS.glob("*.md")]
    assert any(f"](plots/{name}.svg)" in page for page in pages)
