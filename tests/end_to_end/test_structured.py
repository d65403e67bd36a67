"""Texts of a given form from whole servers: a model of noise, lanes in processes of their own."""

import json

import pytest
from fastapi.testclient import TestClient

from heddle import Server
from heddle.core.errors import InputError
from heddle.core.prompts.constraint import Constraint
from heddle.runtime.events import Answer
from heddle.server.http import create_app
from heddle.workflow.presets import preset
from heddle.workflow.ragraph import RAGraph

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
pytest.importorskip("llguidance", reason="llguidance is not installed")

SCHEMA = {
    "type": "object",
    "properties": {
        "keeper": {"type": "string", "maxLength": 12},
        "lit": {"type": "boolean"},
        "years": {"type": "array", "items": {"type": "integer", "maximum": 2000}, "maxItems": 2},
    },
    "required": ["keeper", "lit", "years"],
    "additionalProperties": False,
}
JSON = Constraint.json_schema(SCHEMA)
QUESTION = "Who is the keeper of Rock 1?"


@pytest.mark.parametrize("optimizations", ["off", "exact"])
def test_an_answer_suits_its_schema(server: Server, optimizations: str) -> None:
    handles = [
        server.submit(
            "oneshot",
            f"{QUESTION} {n}",
            constraint=JSON,
            max_tokens=200,
            temperature=0.7,
            optimizations=optimizations,
        )
        for n in range(3)
    ]
    free = server.submit("oneshot", QUESTION, max_tokens=8)
    for handle in handles:
        answer = handle.result()
        jsonschema.validate(json.loads(answer.text), SCHEMA)
        assert (answer.receipt.constrained, answer.receipt.constrained_cut) == (1, 0)
    assert free.result().receipt.constrained == 0


def test_an_answer_that_is_cut_off_is_counted(server: Server) -> None:
    before = server.state().tally.counts.constrained_cut
    answer = server.ask(QUESTION, constraint=JSON, max_tokens=5)
    assert (answer.receipt.constrained, answer.receipt.constrained_cut) == (1, 1)
    assert server.state().tally.counts.constrained_cut == before + 1


def test_any_generation_of_a_workflow_can_be_constrained(server: Server) -> None:
    graph = RAGraph("judge")
    choice = Constraint.choice(["yes", "no"])
    graph.add_generation("judge", "Is it so? {input}", "verdict", constraint=choice)
    graph.add_generation("say", "{verdict}", "answer", max_tokens=4)
    answer: Answer = server.submit(graph, QUESTION).result()
    assert (answer.receipt.constrained, answer.receipt.constrained_cut) == (1, 0)
    lone = RAGraph("judge").add_generation("judge", "{input}", constraint=choice)
    assert server.submit(lone, QUESTION).result().text in ("yes", "no")


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            Constraint.json_schema({"properties": {"a": {"type": "strin"}}, "type": "object"}),
            "node 'answer': json_schema at /properties/a/type: Invalid type: strin",
        ),
        (Constraint.regex("(a"), "node 'answer': regex: .*unclosed group"),
        ({"type": "object"}, "constraint must be a Constraint"),
    ],
)
def test_what_can_not_be_kept_is_refused_at_once(
    server: Server, constraint: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        server.submit("oneshot", QUESTION, constraint=constraint)  # type: ignore[arg-type]


def test_a_form_is_asked_for_over_http(server: Server) -> None:
    workflows = {name: preset(name).compile() for name in ("oneshot", "quote")}
    app = create_app(server, workflows)
    body = {"question": QUESTION, "workflow": "oneshot", "max_tokens": 200}
    with TestClient(app, base_url="http://127.0.0.1") as client:

        def asked(**form: object) -> dict:
            return client.post("/v1/ask", json={**body, "constraint": form}).json()

        reply = asked(json_schema=SCHEMA)
        jsonschema.validate(json.loads(reply["answer"]), SCHEMA)
        assert reply["receipt"]["constrained"] == 1
        assert asked(choice=["yes", "no"])["answer"] in ("yes", "no")
        refused = asked(json_schema={"type": "strin"})["error"]
        assert refused["param"] == "constraint"
        assert "Invalid type: strin" in refused["message"]
        body["workflow"] = "quote"
        assert (
            "no model writes the answer of workflow 'quote'" in asked(regex="a")["error"]["message"]
        )
