"""Control flow of the applications, with engines that a test scripts."""

import pytest

from heddle.core.errors import ConfigError, EngineError, WorkflowError
from heddle.core.payloads import PrefillPayload
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.events import NodeFinished
from heddle.workflow.agent import agent, input_of, tool_of
from heddle.workflow.connectors import RESULT_CHARS_MAX, Lookup
from heddle.workflow.ready_made import READY_MADE, ready_made
from heddle.workflow.writing import Writing, with_writing
from tests.helpers.fake_ports import Bench


def recorded(text: str) -> list[object]:
    """Answer as a web search did once."""
    return [{"title": "Vik", "text": f"About {text}.", "url": "https://vik.example"}, "More."]


def prompts(bench: Bench) -> list[tuple[str, str]]:
    """Return node and prompt of each generation, in the order sent."""
    return [
        (task.identity.node, "".join(map(chr, task.payload.token_ids)))
        for task in bench.llm.tasks()
        if isinstance(task.payload, PrefillPayload)
    ]


class TestSearchEngine:
    workflow = ready_made("search_engine", {"web_search": recorded}).compile()

    def test_a_sure_answer_spares_the_search(self):
        bench = Bench()
        bench.llm.texts = {"proxy": ["Solveig."], "judge": [" Yes."]}
        call = bench.submit(self.workflow)
        assert call.answer.text == "Solveig."
        assert [node for node, _ in prompts(bench)] == ["proxy", "judge"]
        assert not bench.tools.tasks()
        bench.assert_idle()

    @pytest.mark.parametrize("verdict", ["no", "perhaps", ""])
    def test_any_other_verdict_searches_and_answers_from_it(self, verdict: str):
        bench = Bench()
        bench.llm.texts = {"proxy": ["Ada."], "judge": [verdict], "answer": ["Solveig."]}
        call = bench.submit(self.workflow)
        assert call.answer.text == "Solveig."
        assert [p.document_id for p in call.answer.passages] == [
            "https://vik.example",
            "web_search",
        ]
        node, shown = prompts(bench)[-1]
        assert node == "answer"
        assert "About why." in shown
        assert "More." in shown
        assert "from memory: Ada." in shown
        bench.assert_idle()

    def test_a_search_without_results_leaves_the_first_answer(self):
        bench = Bench()
        bench.llm.texts = {"proxy": ["Ada."], "judge": ["no"]}
        call = bench.submit(ready_made("search_engine", {"web_search": lambda _: []}).compile())
        assert call.answer.text == "Ada."

    def test_the_verdict_is_no_answer(self):
        writers = {key for key in self.workflow.outputs if key in ("proxy", "judge", "answer")}
        assert writers == {"answer"}
        changed = with_writing(self.workflow, Writing(max_tokens=9)).nodes
        tokens = {key: changed[key].sampling.max_tokens for key in ("proxy", "judge", "answer")}
        assert tokens == {"proxy": 9, "judge": 4, "answer": 9}

    def test_a_search_that_hangs_has_a_bound(self):
        bench = Bench()
        bench.llm.texts = {"judge": ["no"]}
        bench.submit(self.workflow)
        (task,) = bench.tools.tasks()
        assert task.payload.timeout_s == 30.0

    def test_without_a_connector_it_is_refused_with_what_to_do(self):
        with pytest.raises(ConfigError, match="'search_engine' needs the connector 'web_search'"):
            ready_made("search_engine")


class TestAgent:
    def test_it_plans_uses_tools_and_answers_from_all_they_found(self):
        bench = Bench()
        bench.llm.texts = {
            "plan": ["Look, then ask."],
            "act": ["search: the mill", "Web_Search: the mill at Vik", "done"],
            "answer": ["Solveig."],
        }
        call = bench.submit(ready_made("agent", {"web_search": recorded}).compile())
        assert call.answer.text == "Solveig."
        order = [node for node, _ in prompts(bench)]
        assert order == ["plan", "act", "act", "act", "answer"]
        assert [p.text for p in call.answer.passages] == [
            *["x8", "x9", "x10"],  # the fake index finds by the length of "the mill"
            *["About the mill at Vik.", "More."],
        ]
        assert "- web_search: Answer as a web search did once." in prompts(bench)[0][1]
        bench.assert_idle()

    def test_joins_are_heard_by_no_caller(self):
        bench = Bench()
        bench.llm.texts = {"act": ["web_search: it", "done"]}
        call = bench.submit(agent({"Web_Search": recorded}).compile())
        heard = [event.node for event in call.events if isinstance(event, NodeFinished)]
        assert heard == ["plan", "act", "read", "use", "act", "read", "answer"]

    def test_it_may_use_all_of_its_steps(self):
        bench = Bench()
        lines = [f"web_search: {number}" for number in range(20)]
        bench.llm.texts = {"act": [*lines, "done"], "answer": ["Solveig."]}
        call = bench.submit(agent({"web_search": recorded}, steps_max=20).compile())
        assert call.answer.text == "Solveig."
        assert [node for node, _ in prompts(bench)] == ["plan", *["act"] * 21, "answer"]

    def test_it_is_bounded(self):
        bench = Bench()
        bench.llm.texts = {"act": ["search: more"], "answer": ["Enough."]}
        call = bench.submit(agent({}, steps_max=2).compile())
        assert call.answer.text == "Enough."
        # The second search finds nothing new, so the third line is the second one once more.
        assert [node for node, _ in prompts(bench)] == ["plan", "act", "act", "answer"]
        assert call.answer.receipt.repeated == 1
        searches = [t for t in bench.vector.tasks() if t.kind is PrimitiveKind.SEARCHING]
        assert len(searches) == 2
        bench.assert_idle()

    @pytest.mark.parametrize("action", ["", "done", "fly: to the moon", "search:", "no tool here"])
    def test_a_line_without_a_tool_ends_the_loop(self, action: str):
        bench = Bench()
        bench.llm.texts = {"act": [action], "answer": ["So be it."]}
        call = bench.submit(agent({"web_search": recorded}).compile())
        assert call.answer.text == "So be it."
        assert [node for node, _ in prompts(bench)] == ["plan", "act", "answer"]
        bench.assert_idle()

    def test_lines_are_read_as_tool_and_input(self):
        assert (tool_of(" Search : a: b "), input_of(" Search : a: b ")) == ("search", "a: b")
        assert (tool_of("done"), input_of("done")) == ("done", "")

    def test_what_cannot_be_meant(self):
        with pytest.raises(WorkflowError, match="steps_max must be at least 1"):
            agent({}, steps_max=0)
        with pytest.raises(WorkflowError, match="'search' is the search in the corpus"):
            agent({"search": recorded})


class TestConnectors:
    def test_results_become_passages_and_equal_ones_one(self):
        look_up = Lookup("web_search", recorded, results_max=1)
        (found,) = look_up("mills")
        assert (found.title, found.text, found.document_id) == (
            *("Vik", "About mills."),
            "https://vik.example",
        )
        assert found.is_own
        assert look_up("mills")[0].chunk_id == found.chunk_id != look_up("tides")[0].chunk_id
        (one,) = Lookup("ask", lambda text: text * RESULT_CHARS_MAX)("ab")
        assert (one.title, len(one.text)) == ("ask: ab", RESULT_CHARS_MAX)

    @pytest.mark.parametrize("found", [3, None, [3], [{"title": "x"}], [{"text": 3}], [{"x": "y"}]])
    def test_something_else_ends_its_request_with_the_connector_s_name(self, found: object):
        bench = Bench()
        bench.llm.texts = {"judge": ["no"]}
        bench.tools.on_admit = self._as_a_thread_does(bench)
        call = bench.submit(ready_made("search_engine", {"web_search": lambda _: found}).compile())
        assert isinstance(call.error, EngineError)
        assert "connector 'web_search'" in str(call.error)
        bench.assert_idle()

    @staticmethod
    def _as_a_thread_does(bench: Bench):
        def admit(task):
            try:
                return bench.tools.answer(task.task_id) or ()
            except Exception as error:
                return bench.tools.fail(task.task_id, f"{type(error).__name__}: {error}") or ()

        return admit


@pytest.mark.parametrize("name", READY_MADE)
def test_each_compiles_under_its_name(name: str):
    workflow = ready_made(name, {"web_search": recorded}).compile()
    assert workflow.name == name
    assert workflow.inputs <= {"query", "documents"}


def test_an_unknown_name_lists_the_known():
    with pytest.raises(WorkflowError, match=r"'twoshot' is unknown; there are quote, .*flare"):
        ready_made("twoshot")
