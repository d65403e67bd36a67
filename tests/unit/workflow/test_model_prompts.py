"""Prompts that a model brings along."""

import pytest

from heddle.app.priming.plan import PREFIX
from heddle.app.priming.request import NO_NEIGHBOURS, priming_workflow
from heddle.core.errors import ConfigError
from heddle.workflow.model_prompts import model_prompts, with_model_prompts
from heddle.workflow.nodes import GenerationNode, PrimingNode, PromptRole
from heddle.workflow.presets import preset
from heddle.workflow.ragraph import RAGraph

OWN = model_prompts(
    {"answer": {"prompt": "From notes.\n\n{docs}Q: {query}", "max_tokens": 9, "stop": ["\n"]}}, "f"
)


def test_a_role_gets_the_models_prompt_and_the_others_stay():
    workflow = preset("hyde").compile()
    changed = with_model_prompts(workflow, OWN)
    answer, imagine = changed.nodes["answer"], changed.nodes["imagine"]
    assert isinstance(answer, GenerationNode)
    assert answer.prompt == OWN[PromptRole.ANSWER].prompt
    assert (answer.sampling.max_tokens, answer.sampling.stop) == (9, ("\n",))
    assert imagine == workflow.nodes["imagine"]


def test_an_own_prompt_without_a_role_stays():
    graph = RAGraph("own").add_retrieval("find").add_generation("answer", "{docs}{query}")
    workflow = graph.compile()
    assert with_model_prompts(workflow, OWN) is workflow
    assert with_model_prompts(preset("oneshot").compile(), {}).nodes


def test_chunks_are_primed_behind_the_models_prompt():
    workflow = priming_workflow(NO_NEIGHBOURS, 1)
    [before], [after] = (w.nodes.values() for w in (workflow, with_model_prompts(workflow, OWN)))
    assert isinstance(before, PrimingNode)
    assert isinstance(after, PrimingNode)
    assert (before.prefix, after.prefix) == (PREFIX, "From notes.\n\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"reply": {}}, "f: 'reply' is no prompt's role; there are answer, hypothesis,"),
        ({"answer": "text"}, "f: answer must be an object of prompt, max_tokens, stop"),
        ({"answer": {"tokens": 3}}, "must be an object of prompt, max_tokens, stop"),
        ({"answer": {"prompt": "{docs}"}}, r"must have the placeholders \{docs\}, \{query\}"),
        ({"answer": {"prompt": "{docs}{query}", "max_tokens": 0}}, "max_tokens must be"),
        ({"answer": {"prompt": "{docs}{query}", "stop": "x"}}, "stop must be a list"),
        ({"answer": {}}, "f: answer: prompt: needs a non-empty text"),
    ],
)
def test_a_file_that_can_not_be_used_is_named(content: dict[str, object], words: str):
    with pytest.raises(ConfigError, match=words):
        model_prompts(content, "f")


@pytest.mark.parametrize(
    ("role", "prompt", "words"),
    [("reply", "{docs}{query}", "role must be one of answer,"), ("answer", "{x}", "has {docs}")],
)
def test_a_role_that_does_not_fit_is_refused(role: str, prompt: str, words: str):
    with pytest.raises(Exception, match=words):
        RAGraph("own").add_generation("answer", prompt, role=role)
