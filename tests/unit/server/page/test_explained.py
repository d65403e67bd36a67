"""GET /v1/explain: a workflow's graph as the passes leave it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from heddle.app.server_config import ServerConfig
from heddle.runtime.clock import SystemClock
from heddle.server.http import create_app
from heddle.workflow.ready_made import ready_made
from tests.unit.server.test_metrics import whole_state

WORKFLOWS = {name: ready_made(name).compile() for name in ("quote", "multistep", "irg")}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    server = SimpleNamespace(
        config=ServerConfig(generator="reader"),
        clock=SystemClock(),
        state=whole_state,
        lowered_regions=lambda _: (),
    )
    with TestClient(create_app(server, WORKFLOWS), base_url="http://localhost") as client:
        yield client


def explained(client: TestClient, name: str) -> dict[str, Any]:
    reply = client.get("/v1/explain", params={"workflow": name})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_edges_lead_to_later_columns(client: TestClient, name: str):
    for region in explained(client, name)["regions"]:
        graphs = [region["graph"], *(one["graph"] for one in region["passes"] if one["acted"])]
        for graph in graphs:
            columns = {one["name"]: one["column"] for one in graph["primitives"]}
            assert graph["edges"] or len(columns) == 1
            assert all(columns[edge["from"]] < columns[edge["to"]] for edge in graph["edges"])


def test_a_pass_that_acts_has_its_graph_and_one_that_does_not_its_reason(client: TestClient):
    (region,) = explained(client, "multistep")["regions"]
    passes = {one["name"]: one for one in region["passes"]}
    pruned = passes["prune_dependencies"]
    assert pruned["acted"]
    assert "order edges removed" in pruned["words"]
    kinds = {edge["kind"] for edge in pruned["graph"]["edges"]}
    assert "order" in {edge["kind"] for edge in region["graph"]["edges"]} - kinds
    idle = passes["skip_repeats"]
    assert (idle["acted"], idle["graph"]) == (False, None)
    assert idle["words"]


def test_a_loop_has_a_region_for_each_turn(client: TestClient):
    when = [region["when"] for region in explained(client, "irg")["regions"]]
    assert when[0] == "where a request begins"
    assert any("again" in words for words in when[1:])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "ask with ?workflow=NAME, once"),
        ("workflow=irg&workflow=quote", "ask with ?workflow=NAME, once"),
        ("workflow=twoshot", "'twoshot' is unknown; there are quote, multistep, irg"),
    ],
)
def test_what_is_wrong_is_named(client: TestClient, query: str, words: str):
    reply = client.get(f"/v1/explain?{query}")
    assert reply.status_code == 400
    assert words in reply.json()["error"]["message"]
