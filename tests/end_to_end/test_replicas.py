"""Two lanes of each kind: the other goes on where one dies or stalls."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heddle import Server
from heddle.app.observe.health import unserved_roles
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.server_state import eventually, holds_nothing

Health = dict[str, Any]
QUESTION = "Who is the keeper of Rock 3?"


@pytest.fixture(scope="module")
def server(model: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a copy of the corpus, which the last test changes."""
    own = Path(shutil.copytree(corpus, tmp_path_factory.mktemp("replicas") / "corpus"))
    settings = {"dtype": "float32", "kv_cache_bytes": KV_BYTES}
    with Server(model, own, replicas="llm=2,retrieval=2", **settings) as running:
        yield running


def lanes(server: Server) -> dict[str, int]:
    found = server.state().lanes
    return {name: lane.pid for name, lane in found.items() if lane.pid is not None}


def health_once(server: Server, is_due: Callable[[Health], bool]) -> Health:
    """Wait for a state of health, and return it: the next one may be another."""
    shown: Health = {}

    def comes() -> bool:
        shown.update(server.health())
        return is_due(shown)

    eventually(comes)
    return shown


def test_each_kind_has_two_lanes_and_the_answers_of_one(server: Server, inline_server: Server):
    assert sorted(lanes(server)) == ["llm-both-0", "llm-both-1", "retrieval-0", "retrieval-1"]
    for name in ("oneshot", "quote"):
        expected = inline_server.app(name).invoke(QUESTION)
        together = server.app(name).batch([QUESTION] * 6)
        assert {answer.text for answer in together} == {expected.text}
        assert together[0].passages == expected.passages
    eventually(lambda: holds_nothing(server))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("retrieval-0", signal.SIGKILL),
        ("llm-both-0", signal.SIGSTOP),
        pytest.param("retrieval-0", signal.SIGSTOP, marks=pytest.mark.nightly),
        pytest.param("llm-both-0", signal.SIGKILL, marks=pytest.mark.nightly),
    ],
)
def test_while_a_lane_is_gone_the_others_answer(server: Server, name: str, how: signal.Signals):
    expected = server.app("oneshot").invoke(QUESTION)
    handles = [server.submit("oneshot", f"{QUESTION} {n}") for n in range(4)]
    before = lanes(server)[name]
    os.kill(before, how)
    handles += [server.submit("oneshot", f"{QUESTION} {n}") for n in range(4, 12)]
    shown = health_once(server, lambda health: health["status"] == "degraded")
    assert shown["ready"] is True, "the other lane has the same roles"
    (note,) = shown["notes"]["lanes"]
    assert name in note
    assert shown["lanes"][name]["reason"] in note
    for handle in handles:
        assert handle.result(timeout_s=180).text
    assert server.app("oneshot").invoke(QUESTION).text == expected.text
    eventually(lambda: lanes(server).get(name, before) != before)
    eventually(lambda: server.health()["status"] == "ok" and holds_nothing(server))
    assert server.app("oneshot").invoke(QUESTION).passages == expected.passages


def test_it_is_not_ready_while_no_lane_has_a_role(server: Server):
    for name, pid in lanes(server).items():
        if name.startswith("retrieval"):
            os.kill(pid, signal.SIGKILL)
    shown = health_once(server, lambda health: not health["ready"])
    assert unserved_roles(shown) == ["embedding", "reading", "search"]
    assert shown["roles"]["llm"] == ["llm-both-0", "llm-both-1"]
    eventually(lambda: server.health()["status"] == "ok")


def test_what_is_put_is_found_on_both(server: Server):
    for number in range(3):
        text = f"The ferry {number} sails at dawn from pier {number}."
        server.upsert(f"ferry{number}", text)
        for _ in range(4):
            found = server.search(f"When does ferry {number} sail?", topk=5).passages
            assert f"ferry{number}" in [passage.document_id for passage in found]
    server.delete("ferry1")
    for _ in range(4):
        found = server.search("When does ferry 1 sail?", topk=5).passages
        assert "ferry1" not in [passage.document_id for passage in found]
