"""The published workflows as functions: the same tokens and passages as their graphs give."""

import sys
from pathlib import Path

import pytest

from heddle import Server
from heddle.runtime.events import TokenDelta
from heddle.workflow.presets import preset

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import as_functions

QUESTION = "Who is the keeper of Rock 3?"
FUNCTIONS = {
    function.name: function
    for function in (
        as_functions.oneshot,
        as_functions.hyde,
        as_functions.multistep,
        as_functions.irg,
        as_functions.recomp,
    )
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_answers_as_its_graph(inline_server: Server, name: str):
    drawn = inline_server.app(preset(name)).invoke(QUESTION, tenant=f"drawn-{name}")
    written = inline_server.app(FUNCTIONS[name]).invoke(QUESTION, tenant=f"written-{name}")
    assert written.text == drawn.text
    assert [p.chunk_id for p in written.passages] == [p.chunk_id for p in drawn.passages]
    assert written.receipt.generated_tokens == drawn.receipt.generated_tokens
    assert written.receipt.prompt_tokens == drawn.receipt.prompt_tokens
    assert written.receipt.lists_scanned == drawn.receipt.lists_scanned
    assert written.receipt.barriers == ()


def test_it_streams_and_takes_what_fits_a_function(inline_server: Server):
    events = list(inline_server.app(as_functions.hyde).stream(QUESTION, topk=1))
    answer = events[-1]
    assert len(answer.passages) == 1
    shown = "".join(e.text for e in events if isinstance(e, TokenDelta) and e.node == "answer")
    assert shown.strip() == answer.text
