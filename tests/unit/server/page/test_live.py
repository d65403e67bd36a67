"""GET /v1/live on a server whose state a test makes up."""

from types import SimpleNamespace

from fastapi.testclient import TestClient

from heddle.core import gauges
from heddle.server.http import create_app
from tests.unit.server.test_metrics import whole_state


def test_queues_batches_tiers_and_hits_of_one_moment():
    app = create_app(SimpleNamespace(state=whole_state), {})
    with TestClient(app, base_url="http://localhost") as client:
        live = client.get("/v1/live").json()
    assert (live["status"], live["ready"], live["requests"]) == ("degraded", False, 6)
    engine = live["engines"]["llm"]
    assert {name: engine[name] for name in ("queued", "sent", "running", "waiting")} == {
        "queued": 2,
        "sent": 4,
        "running": 3,
        "waiting": 1,
    }
    assert engine["gauges"][gauges.KV_PAGES_FREE] == 5
    assert live["engines"]["tools"]["gauges"] == {}, "it has told nothing yet"
    assert live["lanes"]["retrieval"]["reason"] == "killed"
    assert live["chunk_hits"] == {"exact": 0, "suffix": 0, "canonical": 0, "alias": 2, "miss": 0}
    assert live["counters"]["generated_tokens"] == 5
    assert live["embedding"]["cpu"]["queries"] == 2
