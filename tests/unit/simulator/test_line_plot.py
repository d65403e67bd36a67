"""The plot is well-formed SVG with what it was given."""

from xml.etree import ElementTree

from heddle.simulator.line_plot import Panel, line_plot

SVG = "{http://www.w3.org/2000/svg}"


def test_each_series_is_a_line_and_what_is_not_finite_is_left_out():
    panels = [
        Panel("a < b", "x", [1.0, 2.0, 3.0], {"one": [1.0, 2.0, float("inf")], "two": [0.0] * 3}),
        Panel("empty", "x", [1.0], {"one": [float("inf")]}),
    ]
    root = ElementTree.fromstring(line_plot(panels))
    lines = [line.get("points").split() for line in root.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [2, 3, 0]
    assert "a < b" in [text.text for text in root.iter(f"{SVG}text")]
