"""What /health shows of a server's state."""

import json
from dataclasses import replace

import pytest

from heddle.app.observe.health import given_up, health_of, unserved_roles
from heddle.app.observe.server_state import (
    CorpusState,
    EmbeddingLaneState,
    EmbeddingState,
    EngineState,
    MemoryState,
    ReprimingState,
    ServerState,
)
from heddle.app.observe.tally import Tally
from heddle.core.frames import Frame
from heddle.core.results import RecallEstimate
from heddle.runtime.counters import Counters
from heddle.runtime.supervision import LaneHealth, LaneState

READY = LaneHealth(LaneState.READY, 1, 0, 7, 0.0)
STATE = ServerState(
    engines={"vector": EngineState(0, 0, None), "tools": EngineState(0, 0, None)},
    lanes={"retrieval": READY},
    roles={"search": ("retrieval",)},
    requests=2,
    tally=Tally(),
    counters=Counters(finished=5, failed=1, retries=3),
    predicted_wait_s=0.25,
)


def test_a_server_that_works_as_meant() -> None:
    health = health_of(STATE)
    assert (health["status"], health["ready"], health["notes"]) == ("ok", True, {})
    assert health["lanes"] == {
        "retrieval": {"state": "ready", "epoch": 1, "restarts": 0, "reason": ""}
    }
    assert (health["embedding"], health["repriming"], health["recall"]) == ({}, {}, {})
    assert (health["requests"], health["predicted_wait_s"]) == (2, 0.25)
    assert (health["finished"], health["failed"], health["retries"]) == (5, 1, 3)


def test_the_fields_and_their_order_are_those_that_clients_know() -> None:
    assert list(health_of(STATE)) == [
        "status",
        "ready",
        "roles",
        "lanes",
        "embedding",
        "repriming",
        "memory_split",
        "answer_cache",
        "recall",
        "notes",
        "requests",
        "finished",
        "failed",
        "retries",
        "predicted_wait_s",
    ]


def test_an_engine_that_runs_degraded_leaves_the_server_ready() -> None:
    frame = Frame("vector", 1, 0.0, (), notes=("no other index could be made",))
    health = health_of(replace(STATE, engines={"vector": EngineState(0, 0, frame)}))
    assert (health["status"], health["ready"]) == ("degraded", True)
    assert health["notes"] == {"vector": ["no other index could be made"]}


@pytest.mark.parametrize("state", [state for state in LaneState if state is not LaneState.READY])
def test_a_lane_that_is_not_ready_counts_where_no_other_has_its_role(state: LaneState) -> None:
    lost = replace(READY, state=state, reason="it was killed")
    lanes = {"retrieval": READY, "llm-0": READY, "llm-1": lost}
    roles = {"search": ("retrieval",), "llm": ("llm-0", "llm-1")}
    health = health_of(replace(STATE, lanes=lanes, roles=roles))
    assert (health["status"], health["ready"], unserved_roles(health)) == ("degraded", True, [])
    assert health["roles"] == {"search": ["retrieval"], "llm": ["llm-0"]}
    assert health["lanes"]["llm-1"]["reason"] == "it was killed"
    note = f"lane llm-1 is {state.value} (it was killed); llm: llm-0"
    assert health["notes"] == {"lanes": [note]}

    lanes["llm-0"] = replace(READY, state=LaneState.STARTING)
    health = health_of(replace(STATE, lanes=lanes, roles=roles))
    assert (health["status"], health["ready"]) == ("degraded", False)
    assert unserved_roles(health) == ["llm"]
    first, _ = health["notes"]["lanes"]
    assert first == "lane llm-0 is starting; llm: no lane is ready"


def test_a_lane_that_was_given_up_matters_where_no_other_has_its_role() -> None:
    lost = replace(READY, state=LaneState.FAILED, reason="SIGKILL")
    roles = {"search": ("retrieval",), "llm": ("llm-0", "llm-1")}
    lanes = {"retrieval": READY, "llm-0": lost, "llm-1": READY}
    assert given_up(replace(STATE, lanes=lanes, roles=roles)) == {}
    lanes["llm-1"] = replace(lost, reason="no sign of life")
    found = given_up(replace(STATE, lanes=lanes, roles=roles))
    assert found == {"llm-0": "SIGKILL", "llm-1": "no sign of life"}


def test_measured_recall_and_services_are_shown_as_plain_values() -> None:
    frame = Frame("vector", 1, 0.0, (), recall=RecallEstimate(0.98, 0.95, 200))
    lane = EmbeddingLaneState(1, 7e-3, 3e-4, 1.1, 1.5, 0.0, {"drift": 2})
    health = health_of(
        replace(
            STATE,
            engines={"vector": EngineState(0, 0, frame)},
            embedding=EmbeddingState({}, 0, {"embedding": lane}),
            repriming=ReprimingState(1, 2, 3, 4, "disk full"),
            memory=MemoryState(64, 2.0, 2.0, 1.0, 128, 3.0, "start again"),
        )
    )
    assert health["recall"] == {"vector": {"recall": 0.98, "at_least": 0.95, "checks": 200}}
    assert health["embedding"] == {
        "embedding": {
            "queries": 1,
            "latency_intercept_s": 7e-3,
            "token_s": 3e-4,
            "margin": 1.1,
            "stretch": 1.5,
            "outlier_share": 0.0,
            "refits": {"drift": 2},
        }
    }
    assert health["repriming"]["problem"] == "disk full"
    assert health["memory_split"]["advised_kv_bytes"] == 128
    assert health["status"] == "ok"
    assert json.loads(json.dumps(health)) == health


def test_damaged_chunks_are_said_with_the_corpus_and_what_to_do() -> None:
    sound = replace(STATE, corpus=CorpusState("town"))
    assert health_of(sound)["status"] == "ok"
    health = health_of(replace(STATE, corpus=CorpusState("town", damaged_chunks=3)))
    assert (health["status"], health["ready"]) == ("degraded", True)
    (note,) = health["notes"]["corpus"]
    assert "3 chunks of town are damaged" in note
    assert "heddle doctor --index town --check" in note
