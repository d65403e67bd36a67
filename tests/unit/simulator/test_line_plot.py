"""The plot is well-formed SVG of what was given, and the same each time."""

import sys
from xml.etree import ElementTree

import pytest

from heddle.core.errors import ConfigError
from heddle.simulator.line_plot import Panel, line_plot

SVG = "{http://www.w3.org/2000/svg}"
PANELS = [
    Panel("a < b", "x", [1.0, 2.0, 3.0], {"one": [1.0, 2.0, float("inf")], "two": [0.0] * 3}),
    Panel("empty", "x", [1.0], {"three": [float("inf")]}),
]


def test_titles_axes_and_series_are_named():
    root = ElementTree.fromstring(line_plot(PANELS))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a < b", "empty", "x", "one", "two", "three"} <= set(texts)


def test_equal_panels_give_equal_text():
    assert line_plot(PANELS) == line_plot(PANELS)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"heddle\[bench\]"):
        line_plot(PANELS)
