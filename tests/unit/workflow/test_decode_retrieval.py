"""What add_generation and compile() make of retrieve_every and retrieve_below, and refuse."""

import pytest

from heddle import RAGraph
from heddle.core.errors import WorkflowError
from heddle.core.payloads import Pause
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.template import Slot


def graph_of(**options: object) -> RAGraph:
    graph = RAGraph().add_retrieval("find", topk=2)
    return graph.add_generation("write", "{docs}{query}", "text", **options)  # type: ignore[arg-type]


def written_node(graph: RAGraph) -> GenerationNode:
    node = graph.compile().nodes["write"]
    assert isinstance(node, GenerationNode)
    return node


def test_the_defaults() -> None:
    retrieval = written_node(graph_of(retrieve_every=16)).decode_retrieval
    assert retrieval is not None
    assert retrieval.pause == Pause(after=16)
    assert retrieval.query.parts == (Slot("query"), " ", Slot("sentence"))
    assert (retrieval.retrievals_max, retrieval.added_max) == (8, 10)
    below = written_node(graph_of(retrieve_below=0.3)).decode_retrieval
    assert below is not None
    assert below.pause == Pause(below=0.3)


def test_without_either_a_generation_is_a_plain_one() -> None:
    assert written_node(graph_of()).decode_retrieval is None


def test_what_its_query_reads_comes_before_it() -> None:
    graph = RAGraph().add_retrieval("find")
    graph.add_generation("plan", "Plan {query}", "plan")
    graph.add_generation(
        "write", "{docs}{query}", "text", retrieve_every=4, query="{plan} {answer} {sentence}"
    )
    workflow = graph.compile()
    assert ("plan", "write") in workflow.edges
    assert set(workflow.nodes["write"].reads) == {"docs", "query", "plan"}


def test_its_own_slot_may_be_called_answer() -> None:
    graph = RAGraph().add_retrieval("find")
    graph.add_generation("write", "{docs}", "answer", retrieve_every=4, query="answer")
    assert graph.compile().nodes["write"].reads == ("docs",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"retrieve_every": 4, "retrieve_below": 0.5},
            "retrieve_every and retrieve_below are both given; leave one out",
        ),
        ({"retrieve_every": 0}, "retrieve_every is 0; it counts tokens, so give 1 or more"),
        ({"retrieve_every": -3}, "retrieve_every is -3"),
        ({"retrieve_below": 0.0}, "retrieve_below is 0.0; it is a probability"),
        ({"retrieve_below": 1.0}, "retrieve_below is 1.0"),
        ({"retrieve_below": float("nan")}, "retrieve_below is nan"),
        ({"query": "{answer}"}, "say when, with retrieve_every= or retrieve_below="),
        ({"retrieve_every": 4, "retrievals_max": 0}, "retrievals_max must be at least 1, got 0"),
        ({"retrieve_every": 4, "added_max": 0}, "added_max must be at least 1, got 0"),
        ({"retrieve_every": 4, "query": ""}, "query: needs a non-empty text"),
        ({"retrieve_every": 4, "query": "{a b}"}, "query: placeholder {a b} is not a plain name"),
    ],
)
def test_options_that_can_t_be_meant(options: dict[str, object], words: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        graph_of(**options)
    assert "generation node 'write'" in str(caught.value)
    assert words in str(caught.value)


def refused(graph: RAGraph) -> str:
    with pytest.raises(WorkflowError) as caught:
        graph.compile()
    return str(caught.value)


def test_an_unknown_slot_of_the_query_is_named_with_those_there_are() -> None:
    assert refused(graph_of(retrieve_every=4, query="{answr}")) == (
        "generation node 'write', query: nothing writes {answr}; "
        "it can be one of answer, docs, query, sentence, text"
    )


def test_a_prompt_that_shows_no_passages_is_refused() -> None:
    graph = RAGraph().add_retrieval("find")
    graph.add_generation("write", "{query}", "text", retrieve_every=4)
    assert "'write': to retrieve while it decodes, its prompt must show the passages" in refused(
        graph
    )


def test_a_slot_that_hides_the_text_so_far_is_refused() -> None:
    graph = graph_of(retrieve_every=4, query="{answer}")
    graph.add_generation("judge", "{text}", "answer")
    message = refused(graph)
    assert "{answer} is what this node has written so far, and node 'judge'" in message
    assert "output=" in message
