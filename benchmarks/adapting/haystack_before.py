"""A Haystack program: imagine an answer, search, answer, check, and search for a sub-question."""

from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import BranchJoiner
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

from benchmarks.adapting.haystack_components import FaissRetriever, LocalTextEmbedder
from benchmarks.adapting.passages import Passages
from benchmarks.adapting.setting import (
    ANSWER,
    ANSWER_TOKENS,
    IMAGINE,
    PASSAGE_TOKENS,
    REWRITE,
    TOPK,
    TRIES_MAX,
    Setting,
    note,
)

NOTES = f"{{% for d in documents %}}{note('{{ d.meta.title }}', '{{ d.content }}')}{{% endfor %}}"
LINE = "{{ replies[0].text.splitlines()[0] if replies[0].text else question }}"
STANDS = "{{ replies[0].text in documents | map(attribute='content') | join(' ') }}"
MORE = f"{{{{ tries + 1 < {TRIES_MAX} }}}}"


def prompt(text: str, *variables: str) -> ChatPromptBuilder:
    """Return a prompt of one message."""
    template = text.replace("{notes}", NOTES).replace("{question}", "{{ question }}")
    messages = [ChatMessage.from_user(template)]
    return ChatPromptBuilder(messages, required_variables="*", variables=list(variables))


def router() -> ConditionalRouter:
    """Return the check: the answer stands in a passage, or there is another try, or it ends."""
    routes = [
        (STANDS, "{{ replies[0].text }}", "found", str),
        (MORE, "{{ tries + 1 }}", "again", int),
        ("{{ True }}", "{{ tries }}", "none", int),
    ]
    names = ("condition", "output", "output_name", "output_type")
    return ConditionalRouter([dict(zip(names, route, strict=True)) for route in routes])


def graph(setting: Setting) -> Pipeline:
    """Return the pipeline."""

    def model(tokens: int) -> OpenAIChatGenerator:
        writing = {"temperature": 0, "max_tokens": tokens}
        key = Secret.from_token("any")
        return OpenAIChatGenerator(
            key, setting.model, api_base_url=setting.llm_url, generation_kwargs=writing
        )

    passages = Passages(setting)
    app = Pipeline()
    app.add_component("imagine_prompt", prompt(IMAGINE, "question"))
    app.add_component("imagine", model(ANSWER_TOKENS))
    app.add_component("query", PromptBuilder("{{ question }} {{ replies[0].text }}", "*"))
    app.add_component("search", BranchJoiner(str))
    app.add_component("embedder", LocalTextEmbedder(passages))
    app.add_component("retrieve", FaissRetriever(passages, TOPK))
    app.add_component("answer_prompt", prompt(ANSWER, "documents", "question"))
    app.add_component("generate", model(ANSWER_TOKENS))
    app.add_component("tries", BranchJoiner(int))
    app.add_component("check", router())
    app.add_component("rewrite_prompt", prompt(REWRITE, "question", "tries"))
    app.add_component("rewrite", model(PASSAGE_TOKENS))
    app.add_component("rewritten", PromptBuilder(LINE, "*"))
    app.connect("imagine_prompt.prompt", "imagine.messages")
    app.connect("imagine.replies", "query.replies")
    app.connect("query.prompt", "search.value")
    app.connect("rewritten.prompt", "search.value")
    app.connect("search.value", "embedder.text")
    app.connect("embedder.embedding", "retrieve.query_embedding")
    app.connect("retrieve.documents", "answer_prompt.documents")
    app.connect("retrieve.documents", "check.documents")
    app.connect("answer_prompt.prompt", "generate.messages")
    app.connect("generate.replies", "check.replies")
    app.connect("tries.value", "check.tries")
    app.connect("check.again", "tries.value")
    app.connect("check.again", "rewrite_prompt.tries")
    app.connect("rewrite_prompt.prompt", "rewrite.messages")
    app.connect("rewrite.replies", "rewritten.replies")
    return app
