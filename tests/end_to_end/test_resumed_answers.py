"""Answers that have begun when their lane dies: they go on where they were, and nothing is lost."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.core.prompts.constraint import Constraint
from heddle.runtime.events import TokenDelta
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.degraded import kinds
from tests.helpers.server_state import eventually, holds_nothing, kill_lane

TOKENS = 200
TOKENS_BEFORE = 8
SETTINGS = {"dtype": "float32", "kv_cache_bytes": KV_BYTES}


FORM = Constraint.json_schema({"type": "string", "pattern": "^[a-z ]{150,160}$"})


def talker(temperature: float, constraint: Constraint | None) -> RAGraph:
    graph = RAGraph("talker")
    return graph.add_generation(
        "talk",
        "Tell of {query}.",
        max_tokens=TOKENS,
        temperature=temperature,
        constraint=constraint,
    )


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, model: Path, corpus: Path) -> Iterator[Server]:
    with Server(model, corpus, llm_lanes=request.param, **SETTINGS) as running:
        yield running


def kill_writer(server: Server) -> None:
    """Kill the lane that writes the one answer that is under way."""
    tasks = server.state().engines["llm"].tasks_by_lane or {"llm": 1}
    (name,) = [name for name, count in tasks.items() if count]
    kill_lane(server, name)


@pytest.mark.parametrize(
    ("server", "temperature", "constraint"),
    [
        ("both", 0.0, None),
        ("both", 0.8, FORM),
        ("both,both", 0.0, None),
        pytest.param("both,both", 0.8, None, marks=pytest.mark.nightly),
        pytest.param("prefill,decode", 0.0, None, marks=pytest.mark.nightly),
        ("prefill,decode", 0.8, None),
        pytest.param("prefill,decode", 0.8, FORM, marks=pytest.mark.nightly),
    ],
    indirect=["server"],
)
def test_an_answer_goes_on_behind_the_tokens_that_were_shown(
    server: Server, temperature: float, constraint: Constraint | None
):
    if constraint is not None:
        pytest.importorskip("llguidance", reason="llguidance is not installed")
    expected = server.app(talker(temperature, constraint)).invoke("the sea")
    assert constraint is None or len(json.loads(expected.text)) >= 150
    handle = server.submit(talker(temperature, constraint), "the sea")
    said: list[str] = []
    for event in handle:
        if isinstance(event, TokenDelta):
            said.append(event.text)
            if len(said) == TOKENS_BEFORE:
                kill_writer(server)
    answer = handle.result()
    assert answer.receipt.resumed == 1
    assert answer.text == expected.text
    assert "".join(said).strip() == expected.text
    assert answer.receipt.generated_tokens == expected.receipt.generated_tokens
    assert kinds(answer.receipt) == ["retry"]
    eventually(lambda: server.health()["ready"] is True and holds_nothing(server))
