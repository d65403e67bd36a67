"""What compile() makes of a graph, and everything it refuses."""

import pytest

from heddle import END, START, RAGraph
from heddle.core.errors import WorkflowError
from heddle.workflow.nodes import GenerationNode, Parse


def hyde() -> RAGraph:
    graph = RAGraph()
    graph.add_generation(0, prompt="Generate a hypothesis for {input}.", output="hypopara")
    graph.add_retrieval(1, topk=5, query="hypopara", output="docs")
    graph.add_generation(2, prompt="Answer {query} using {docs}.")
    return graph


def multistep() -> RAGraph:
    graph = RAGraph()
    graph.add_generation(0, prompt="Decompose {input} into subquestions.", output="subquestion")
    graph.add_retrieval(1, topk=2, query="subquestion", output="docs")
    graph.add_generation(2, prompt="Answer {subquestion} using {docs}.")
    graph.add_edge(START, 0).add_edge(0, 1).add_edge(1, 2)
    graph.add_edge(2, lambda state: 1 if state.get("subquestion") else END)
    return graph


def test_edges_follow_from_data() -> None:
    drawn = hyde().add_edge(START, 0).add_edge(0, 1).add_edge(1, 2).add_edge(2, END).compile()
    inferred = hyde().compile()
    assert inferred.edges == drawn.edges == {(0, 1), (1, 2)}
    assert inferred.entries == drawn.entries == (0,)
    assert inferred.outputs == drawn.outputs == {2}


def test_input_and_query_are_the_question() -> None:
    workflow = hyde().compile()
    assert workflow.nodes[0].reads == workflow.nodes[2].reads[:1] == ("query",)


def test_independent_nodes_have_no_edge() -> None:
    graph = RAGraph()
    graph.add_retrieval("a", query="query", output="left")
    graph.add_retrieval("b", query="query", output="right")
    graph.add_generation("c", prompt="{left} {right} {query}")
    workflow = graph.compile()
    assert workflow.edges == {("a", "c"), ("b", "c")}
    assert workflow.entries == ("a", "b")


def test_a_loop_consumes_the_list_it_does_not_write() -> None:
    workflow = multistep().compile()
    assert workflow.list_slots == {"subquestion": frozenset({1, 2})}
    node = workflow.nodes[0]
    assert isinstance(node, GenerationNode)
    assert node.parse is Parse.LINES


def test_a_slot_that_its_loop_writes_anew_is_no_list() -> None:
    graph = RAGraph()
    graph.add_retrieval("r", query="{query} {draft}", output="docs")
    graph.add_generation("g", prompt="{docs} {query}", output="draft")
    graph.add_edge(START, "r").add_edge("r", "g")
    graph.add_edge("g", lambda state: END, targets=["r"])
    assert graph.compile().list_slots == {}


def test_a_slot_that_is_written_anew_before_each_turn_is_no_list() -> None:
    graph = RAGraph().add_generation("rewrite", "Rewrite {query} {answer}", "rewritten")
    graph.add_retrieval("find", "rewritten").add_generation("reply", "{docs}{query}", "answer")
    graph.add_edge(START, "rewrite").add_edge("rewrite", "find").add_edge("find", "reply")
    graph.add_edge("reply", lambda state: END, targets=["rewrite"])
    assert graph.compile().list_slots == {}


def test_edges_that_follow_from_data_lead_to_consumers_as_well() -> None:
    graph = RAGraph().add_generation("split", "Split {query}", "parts")
    graph.add_retrieval("find", "parts").add_generation("reply", "{docs}{parts}", "answer")
    graph.add_edge(START, "split").add_edge("split", "find")
    graph.add_edge("reply", lambda state: END, targets=["find"])
    assert graph.compile().list_slots == {"parts": frozenset({"find", "reply"})}


def test_only_the_callable_leads_to_its_target() -> None:
    graph = RAGraph()
    graph.add_retrieval("r", query="query", output="docs")
    graph.add_generation("long", prompt="{docs} {query}", output="long_answer")
    graph.add_generation("short", prompt="{query}", output="short_answer")
    graph.add_edge(START, "r")
    graph.add_edge("r", lambda s: "long" if s["docs"] else "short", targets=["long", "short"])
    graph.add_edge("long", END).add_edge("short", END)
    assert graph.compile().edges == frozenset()


def test_depth_counts_a_loop_turn_once() -> None:
    depth = multistep().compile().depth_after
    assert depth[0] > depth[1] > depth[2] > 0


def test_depths_of_nodes_that_read_all_earlier_ones_take_no_walk_of_every_path() -> None:
    graph, earlier = RAGraph(), "{query}"
    for number in range(60):  # 2 ** 58 paths lead from the first to the last
        graph.add_generation(number, earlier, f"text_{number}")
        earlier += f"{{text_{number}}}"
    assert graph.compile().depth_after == {number: 59 - number for number in range(60)}


def refused(graph: RAGraph) -> str:
    with pytest.raises(WorkflowError) as caught:
        graph.compile()
    return str(caught.value)


def test_unknown_placeholder_names_node_and_slot() -> None:
    message = refused(RAGraph().add_generation("writer", prompt="{docs} {query}"))
    assert "'writer'" in message
    assert "{docs}" in message


def test_unreachable_node_is_named() -> None:
    graph = hyde().add_generation("lost", prompt="{query}", output="lost_text")
    graph.add_edge(START, 0).add_edge(2, END)
    assert "'lost'" in refused(graph)


def test_no_way_to_end_names_the_node() -> None:
    graph = hyde().add_edge(START, 0).add_edge(0, 1).add_edge(1, 2)
    assert "no way to END" in refused(graph)


def test_a_callable_edge_is_a_way_to_end() -> None:
    graph = hyde().add_edge(START, 0)
    graph.add_edge(2, lambda state: END)
    assert graph.compile().outputs == {2}


def test_two_writers_are_named() -> None:
    graph = RAGraph().add_retrieval("a", output="docs").add_retrieval("b", output="docs")
    message = refused(graph)
    assert "'a'" in message
    assert "'b'" in message


def test_static_loop_is_refused() -> None:
    graph = hyde().add_edge(START, 0).add_edge(2, 0).add_edge(2, END)
    assert "loop" in refused(graph)


def test_reading_before_writing_without_a_loop_is_refused() -> None:
    graph = RAGraph()
    graph.add_generation("first", prompt="{later} {query}", output="early")
    graph.add_generation("second", prompt="{early}", output="later")
    assert "before" in refused(graph)


def test_edge_to_an_unknown_node_is_refused() -> None:
    assert "'nowhere'" in refused(hyde().add_edge(0, "nowhere"))


def test_empty_graph_is_refused() -> None:
    assert "no nodes" in refused(RAGraph())


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("max_tokens", {"max_tokens": 0}),
        ("temperature", {"temperature": -1.0}),
        ("parse", {"parse": "yaml"}),
        ("stop", {"stop": ["END", ""]}),
        ("stop", {"stop": ""}),
    ],
)
def test_generation_values_out_of_range_name_the_field(
    field: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(WorkflowError, match=field):
        RAGraph().add_generation("g", "{query}", **arguments)  # type: ignore[arg-type]


def test_a_stop_string_may_be_given_alone() -> None:
    graph = RAGraph().add_generation("one", "{query}", stop="END")
    graph.add_generation("two", "{query}", stop=["END", "\n"])
    nodes = graph.compile().nodes.values()
    assert [n.sampling.stop for n in nodes if isinstance(n, GenerationNode)] == [
        ("END",),
        ("END", "\n"),
    ]


def test_how_many_are_kept_is_no_yes_or_no() -> None:
    with pytest.raises(WorkflowError, match="rerank is how many"):
        RAGraph().add_retrieval("r", rerank=True)


def test_a_named_topk_is_meant() -> None:
    graph = RAGraph().add_retrieval("a", output="one").add_retrieval("b", output="two", topk=5)
    graph.add_retrieval("c", output="three", topk=5, allow_fewer=True)
    nodes = graph.compile().nodes
    found = {name: (node.topk, node.allow_fewer) for name, node in nodes.items()}
    assert found == {"a": (5, True), "b": (5, False), "c": (5, True)}


@pytest.mark.parametrize("effort", ["nprobe", "topm"])
def test_a_search_goes_some_way_at_least(effort: str) -> None:
    with pytest.raises(WorkflowError, match=f"{effort} must be at least 1"):
        RAGraph().add_retrieval("r", **{effort: 0})


@pytest.mark.parametrize("topk", [0, -1, 10_000])
def test_topk_out_of_range(topk: int) -> None:
    with pytest.raises(WorkflowError, match="topk"):
        RAGraph().add_retrieval("r", topk=topk)


def test_reserved_slots_cannot_be_written() -> None:
    for name in ("query", "input", "turn", "two words"):
        with pytest.raises(WorkflowError, match="output"):
            RAGraph().add_retrieval("r", output=name)


def test_taken_id_is_refused() -> None:
    with pytest.raises(WorkflowError, match="there already"):
        hyde().add_retrieval(0)


def test_second_callable_edge_is_refused() -> None:
    graph = hyde()
    graph.add_edge(2, lambda state: END)
    with pytest.raises(WorkflowError, match="callable"):
        graph.add_edge(2, lambda state: END)


@pytest.mark.parametrize("slot", ["draft", "quotes", "query"])
def test_an_extraction_from_what_holds_no_passages_is_refused(slot: str) -> None:
    graph = RAGraph().add_retrieval("find").add_generation("write", "{docs}", "draft")
    graph.add_extraction("first", "docs", "quotes").add_extraction("x", slot, "found")
    assert f"extraction node 'x': slot '{slot}' holds no passages" in refused(graph)


def test_an_extraction_from_a_tool_a_join_or_an_input_is_taken() -> None:
    graph = RAGraph(inputs=["notes"]).add_tool("ask", len, ["query"], "asked")
    graph.add_join("join", ["asked", "notes"], "joined")
    for slot in ("asked", "joined", "notes"):
        graph.add_extraction(f"from_{slot}", slot, f"quotes_{slot}")
    assert graph.compile()
