"""deploy/grafana.json asks for metrics and labels that a server has."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from heddle.server.http import create_app
from tests.unit.server.test_metrics import scrape, whole_state

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
DASHBOARD: Final = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_THE_SCRAPE: Final = {"job", "instance"}  # Prometheus adds them


def queries() -> Iterator[str]:
    for panel in PANELS:
        yield from (target["expr"] for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Return the labels of each sample on /metrics, by its name."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(scrape(whole_state()).text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_that_is_asked_for_is_there(labels: dict[str, set[str]]) -> None:
    asked = {name for query in queries() for name in re.findall(r"\bheddle_\w+", query)}
    assert len(asked) > 30
    assert asked - labels.keys() == set()


def test_every_label_that_is_shown_is_there(labels: dict[str, set[str]]) -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            names = re.findall(r"\bheddle_\w+", target["expr"])
            known = OF_THE_SCRAPE | set.union(*(labels[name] for name in names))
            by = {
                part
                for group in re.findall(r"by \(([^)]*)\)", target["expr"])
                for part in group.split(", ")
            }
            assert by <= known, target["expr"]
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= by, panel["title"]
            assert target["expr"].count("(") == target["expr"].count(")")


def test_the_panels_are_told_apart_and_lie_side_by_side() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) > 30
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        assert not overlap(one, other)
    sources = {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]}
    assert sources == {"${datasource}"}, "it is chosen where the dashboard is used"


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or above)


def test_prometheus_scrapes_a_path_that_is_there() -> None:
    config: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    [job] = config["scrape_configs"]
    assert job["metrics_path"] in create_app(object(), {}).openapi()["paths"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8321"]}]
