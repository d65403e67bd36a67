"""The page is well-formed, needs no network, runs no script, and shows what the text shows."""

from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from heddle.app.explain.explanation import Explanation
from heddle.cli.output.explained.graph_svg import graph_svg
from heddle.cli.output.explained.page import explanation_page
from heddle.cli.output.explained.timeline_svg import timeline_svg
from heddle.graph.pgraph import PGraph

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Reads a page, and fails where a tag is closed that is not the last one open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(params=["measured", "unmeasured"])
def page(request: pytest.FixtureRequest) -> Page:
    return Page(explanation_page(request.getfixturevalue(request.param)))


def test_no_name_becomes_markup(page: Page):
    assert "script" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert any("<script>alert('x')</script>" in text for text in page.texts)
    assert not any("\x1b" in text for text in page.texts)


def test_nothing_comes_from_the_network(page: Page):
    assert {"link", "img", "iframe", "object"}.isdisjoint(page.tags)
    assert {"src", "href", "xlink:href"}.isdisjoint(name for name, _ in page.attributes)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
    assert not any("url(" in text or "@import" in text for text in page.texts)


def test_it_shows_graph_table_and_timeline(measured: Explanation):
    page = Page(explanation_page(measured))
    assert page.tags.count("svg") == 3  # as lowered, behind the passes, the timeline
    text = " ".join(page.texts)
    for words in ("Measured", "Timeline", "answer.decoding@0", "predicted", "critical path"):
        assert words in text
    assert "it acted in 3 of 4 cycles" in text
    assert "line 3 waited for" in text


def test_without_runs_it_shows_the_graphs_alone(unmeasured: Explanation):
    page = Page(explanation_page(unmeasured))
    assert page.tags.count("svg") == 2
    assert not any("Timeline" in text for text in page.texts)


def test_a_graph_has_a_box_for_each_primitive_and_a_line_for_each_edge(measured: Explanation):
    graph = measured.regions[0].graph
    drawn = ElementTree.fromstring(graph_svg(graph, "label"))
    assert len(drawn.findall("g/rect")) == len(graph.primitives)
    assert len(drawn.findall("path")) == len(graph.edges)
    corners = {(box.get("x"), box.get("y")) for box in drawn.findall("g/rect")}
    assert len(corners) == len(graph.primitives)
    assert float(drawn.get("width", 0)) > max(float(x or 0) for x, _ in corners)


def test_an_empty_graph_is_an_empty_picture():
    drawn = ElementTree.fromstring(graph_svg(PGraph((), frozenset()), "label"))
    assert drawn.findall("g") == []


def test_a_timeline_has_bars_for_waits_work_and_engines(measured: Explanation):
    assert measured.measured is not None
    run, path = measured.measured.middle, measured.measured.path
    drawn = ElementTree.fromstring(timeline_svg(run, path))
    kinds = [bar.get("class") for bar in drawn.findall("rect")]
    assert kinds.count("waited") == 1
    assert kinds.count("ran path") == 4
    assert kinds.count("step") == 3
    for bar in drawn.findall("rect"):
        right = float(bar.get("x", 0)) + float(bar.get("width", 0))
        assert 0 <= float(bar.get("x", -1)) <= right <= float(drawn.get("width", 0))


def test_steps_that_follow_each_other_are_one_bar(measured: Explanation):
    assert measured.measured is not None
    run, path = measured.measured.middle, measured.measured.path
    step = run.steps[-1]
    half_s = (step.start_s + step.end_s) / 2
    halves = replace(step, end_s=half_s), replace(step, start_s=half_s)
    drawn = ElementTree.fromstring(timeline_svg(replace(run, steps=halves), path))
    assert [bar.get("class") for bar in drawn.findall("rect")].count("step") == 1


def test_a_run_that_took_no_time_has_a_timeline(measured: Explanation):
    assert measured.measured is not None
    run, path = measured.measured.middle, measured.measured.path
    receipt = replace(run.receipt, latency_s=0.0, spans=())
    ElementTree.fromstring(timeline_svg(replace(run, receipt=receipt, steps=()), path))
