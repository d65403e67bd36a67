"""A template of components means the same as a graph, and what can't be run is refused by name."""

from itertools import pairwise

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.component import Component
from heddle.workflow.component_template import template_graph
from heddle.workflow.nodes import Parse
from heddle.workflow.ragraph import END, START, RAGraph

ANSWER = {"prompt": "Answer {query} from {docs}", "max_tokens": 8}


def chain(*components):
    for one, following in pairwise(components):
        one >> following
    return list(components)


def retrieval(**config):
    return Component("Embedding"), Component("Searching", config=config)


def test_it_is_the_graph_that_it_means():
    drawn = RAGraph("t")
    drawn.add_retrieval("embedding", "{query}", "docs", topk=3, rerank=1, allow_fewer=True)
    drawn.add_generation("llm", ANSWER["prompt"], "llm", max_tokens=8, parse="text")
    drawn.add_edge(START, "embedding").add_edge("embedding", "llm").add_edge("llm", END)
    ranked = Component("Reranking", config={"rerank": 1})
    template = chain(*retrieval(topk=3), ranked, Component("LLM", config=ANSWER))
    assert template_graph(template, {}, "t").compile() == drawn.compile()


def test_dots_stand_for_the_search_and_for_all_that_is_joined():
    expand = Component("LLM", anno="splitable", config={"prompt": "Split {query}"})
    embedding = Component("Embedding", anno="batchable", config={"topk": 2})
    answer = Component("LLM", config=ANSWER)
    expand >> embedding >> ... >> answer
    workflow = template_graph([expand, ...], {}).compile()
    assert list(workflow.nodes) == ["llm", "embedding", "llm_2"]
    assert workflow.nodes["llm"].parse is Parse.LINES
    assert workflow.nodes["embedding"].query.slots == ("llm",)
    assert workflow.nodes["llm_2"].prompt.slots == ("query", "docs")
    assert workflow.outputs == {"llm_2"}


def test_kwargs_name_slots_and_inputs():
    embedding = Component("Embedding", {"text": "question"}, config={"query": "{text}"})
    searching = Component("Searching", out_kwargs={"passages": "found"}, name="find")
    answer = Component(
        "LLM", {"docs": "found", "query": "question"}, {"text": "said"}, None, ANSWER
    )
    workflow = template_graph(chain(embedding, searching, answer), {}).compile()
    assert workflow.inputs == {"query", "question"}
    assert workflow.nodes["find"].output == "found"
    assert workflow.nodes["llm"].prompt.slots == ("question", "found")
    assert workflow.nodes["llm"].output == "said"


def test_input_among_in_kwargs_names_the_slot_of_the_question():
    summary = Component("LLM", None, {"text": "summary"}, config={"prompt": "Sum up {query}"})
    translate = Component("LLM", {"input": "summary"}, config={"prompt": "Translate {input}"})
    workflow = template_graph(chain(summary, translate), {}).compile()
    assert workflow.nodes["llm"].prompt.slots == ("query",)
    assert workflow.nodes["llm_2"].prompt.slots == ("summary",)
    search = Component("Embedding", {"input": "topic"}, config={"query": "On {query}"})
    search >> ... >> Component("LLM", config=ANSWER)
    found = template_graph([search, ...], {}).compile()
    assert found.nodes["embedding"].query.slots == ("topic",)


def test_an_embedding_reads_the_slots_that_it_names_or_what_comes_before():
    named = Component("Embedding", {"text": "question"}, config={"topk": 2})
    named >> ... >> Component("LLM", config=ANSWER)
    assert template_graph([named, ...], {}).compile().nodes["embedding"].query.slots == (
        "question",
    )
    both = Component("Embedding", config={"topk": 2})
    for text in ("{query}", "again {query}"):
        Component("LLM", config={"prompt": text}) >> both
    both >> Component("Searching")
    found = template_graph([both, ...], {}).compile().nodes["embedding"]
    assert found.query.slots == ("llm", "llm_2")


def test_other_engines_are_tools():
    judge = Component("Judge")
    answer = Component("LLM", config={"prompt": "Say {judge} of {query}"})
    workflow = template_graph(chain(judge, answer), {"Judge": str.upper}).compile()
    assert workflow.nodes["judge"].function is str.upper
    assert workflow.nodes["judge"].reads == ("query",)


def test_a_tool_s_config_is_that_of_its_node():
    def graph(config):
        answer = Component("LLM", config={"prompt": "Say {judge}"})
        parts = chain(Component("Judge", config=config), answer)
        return template_graph(parts, {"Judge": str.upper})

    assert graph({"timeout_s": 0.5}).compile().nodes["judge"].timeout_s == 0.5
    with pytest.raises(WorkflowError, match=r"component 'Judge': config: .*'nonsense'"):
        graph({"nonsense": 1})


def loop():
    first, second = Component("LLM", config=ANSWER), Component("LLM", config=ANSWER)
    first >> second
    second >> first
    return [first, second]


def apart():
    expand = Component("LLM", anno="splittable", config={"prompt": "{query}"})
    return chain(expand, *retrieval())


def twice():
    return chain(
        Component("Embedding", config={"topk": 2}), Component("Searching", config={"topk": 3})
    )


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ([], "list components and"),
        (["LLM"], "list components and ..., got 'LLM'"),
        (loop(), "component 'LLM' comes after itself"),
        (chain(*retrieval())[:1], "component 'Searching' is joined .* list it, or"),
        ([Component("LLM")], "component 'LLM': config needs a 'prompt'"),
        ([Component("LLM", config={"prompt": "{query}", "topk": 3})], "'LLM': config: .*'topk'"),
        ([Component("LLM", {"docs": "x"}, config={"prompt": "{query}"})], "in_kwargs has 'docs'"),
        ([Component("LLM", {"input": "x"}, config={"prompt": "{docs}"})], "in_kwargs has 'input'"),
        (
            [Component("LLM", {"input": "x", "query": "y"}, config={"prompt": "{query}"})],
            "two names of one placeholder",
        ),
        ([Component("LLM", {}, {"passages": "x"}, None, ANSWER)], "what it gives is 'text'"),
        ([Component("Embedding")], "'Embedding': join it to a Searching"),
        ([Component("Searching")], "'Searching' comes after one component of Embedding"),
        (chain(*retrieval(), Component("Reranking")), "Reranking needs 'rerank'"),
        ([Component("Judge")], "no engine 'Judge'; there are LLM"),
        ([Component("Embedding", anno="splittable")], "only what an LLM writes is splittable"),
        ([Component("LLM", anno="batchable", config=ANSWER)], "are batchable"),
        (apart(), "'Embedding' takes the list of component 'LLM': annotate it"),
        (twice(), "'Searching': config has 'topk', and so has component 'Embedding'"),
    ],
)
def test_what_can_t_be_run_is_refused(template, words):
    with pytest.raises(WorkflowError, match=words):
        template_graph(template, {}).compile()
