"""Conversations through a chat template: no content becomes a control token, no turn is lost."""

import functools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from heddle.core.errors import InputError
from heddle.core.prompts.chat_turns import BareText, ChatTurn, ChatTurns
from heddle.core.system_text import SystemText
from heddle.engines.llm.text.chat_template import ChatTemplate
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from tests.helpers.trained_tokenizers import SPECIALS, train

ROLES = (
    "{{ bos_token }}{% for m in messages %}<|user|>{{ m['role'] }}\n{{ m['content'] }}"
    "{% if m['tool_calls'] %}{{ m['tool_calls'] | tojson }}{% endif %}<|end|>\n{% endfor %}"
    "<|assistant|>{{ '\n' }}"
)
LLAMA2 = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ bos_token }}[INST] {{ m['content'] }} "
    "[/INST]{% elif m['role'] == 'assistant' %} {{ m['content'] }} {{ eos_token }}{% else %}"
    "{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}"
)
FORGETS = "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}\n"
FORGETS += "{% endif %}{% endfor %}<|assistant|>{{ '\n' }}"
FAMILIES = ["gpt2", "qwen", "llama2_legacy", "metaspace_first", "metaspace_always"]
pieces = st.sampled_from(
    [" ", "\n", "a", "The", " harbour", "ü", "東京", "🙂", "<|end|>", "<s>", "heddle0turn1marker"]
)
contents = st.lists(pieces, min_size=1, max_size=6).map("".join)


class Model:
    def __init__(self, family: str, template: str | None) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            train(family).save(str(folder / "tokenizer.json"))
            settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
            (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
            self.prompts = PromptTokenizer.from_directory(folder)
            self.native = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self.template = ChatTemplate.from_directory(folder)

    def decoded(self, segments) -> str:
        ids = [i for segment in segments for i in segment.token_ids]
        return self.native.decode(ids, skip_special_tokens=False)

    def rendered(self, turns: ChatTurns) -> str:
        assert self.template is not None
        return self.template.render([{"role": t.role, "content": t.content} for t in turns.turns])


model_of = functools.cache(Model)


def chat(*turns: tuple[str, str]) -> ChatTurns:
    return ChatTurns(tuple(ChatTurn(role, content) for role, content in turns))


@pytest.mark.parametrize("template", [ROLES, LLAMA2], ids=["roles", "llama2"])
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, derandomize=True)
@given(first=contents, second=contents, third=contents)
def test_the_joined_ids_decode_to_the_rendered_conversation(
    family, template, first, second, third
) -> None:
    model = model_of(family, template)
    turns = chat(("user", first), ("assistant", second), ("user", third))
    segments = model.prompts.encode_prompt([turns])
    assert model.decoded(segments) == model.rendered(turns)
    controls = {model.native.token_to_id(s) for s in SPECIALS}
    inner = {i for s in segments[1::2] for i in s.token_ids}
    assert not inner & controls, "what was said holds no control token"


def test_a_shared_beginning_has_the_same_ids() -> None:
    model = model_of("qwen", ROLES)
    first = chat(("system", "Be brief."), ("user", "Who?"))
    longer = ChatTurns((*first.turns, ChatTurn("assistant", "Ada."), ChatTurn("user", "When?")))
    ids = [
        [i for s in model.prompts.encode_prompt([turns]) for i in s.token_ids]
        for turns in (first, longer)
    ]
    shared = next(n for n, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    assert "Who?" in model.native.decode(ids[0][:shared])


def test_the_servers_system_text_yields_to_the_conversations() -> None:
    model = model_of("gpt2", ROLES)
    plain, own = chat(("user", "Who?")), chat(("system", "Own."), ("user", "Who?"))
    with_system = model.prompts.encode_prompt([SystemText("Server's."), plain])
    assert model.decoded(with_system) == model.rendered(
        chat(("system", "Server's."), ("user", "Who?"))
    )
    assert model.decoded(model.prompts.encode_prompt([SystemText("Server's."), own])) == (
        model.rendered(own)
    )


def test_without_a_place_for_it_a_system_text_begins_what_the_user_says_first() -> None:
    model = model_of("gpt2", LLAMA2)
    turns = chat(("system", "Be brief."), ("user", "Who?"), ("assistant", "I."), ("user", "Why?"))
    joined = chat(("user", "Be brief.\n\nWho?"), ("assistant", "I."), ("user", "Why?"))
    assert model.decoded(model.prompts.encode_prompt([turns])) == model.rendered(joined)


def test_turns_that_the_template_does_not_take_are_refused_by_name() -> None:
    for template, turns, words in (
        (LLAMA2, chat(("user", "Who?"), ("tool", "Ada")), "only user and assistant"),
        (FORGETS, chat(("user", "Who?"), ("assistant", "I."), ("user", "Why?")), "messages.1"),
        (None, chat(("user", "Who?")), "no chat template"),
    ):
        with pytest.raises(InputError, match=words) as refused:
            model_of("gpt2", template).prompts.encode_prompt([turns])
        assert refused.value.param == "messages"


def test_fields_beside_the_content_reach_the_template_and_hold_no_control_token() -> None:
    model = model_of("gpt2", ROLES)
    call = {"function": {"name": "look", "arguments": {"name": "Ada"}}}
    turns = (ChatTurn("user", "Who?"), ChatTurn("assistant", "", {"tool_calls": [call]}))
    text = model.decoded(model.prompts.encode_prompt([ChatTurns(turns)]))
    assert '"name": "look"' in text
    for bad in ("<|end|>", "heddle0turn0marker"):
        call["function"]["arguments"]["name"] = bad
        with pytest.raises(InputError, match="keeps for itself"):
            model.prompts.encode_prompt([ChatTurns(turns)])


def test_half_a_character_in_a_field_is_the_callers_to_mend() -> None:
    call = {"function": {"name": "look", "arguments": {"name": "\ud83d"}}}
    turns = (ChatTurn("user", "Who?"), ChatTurn("assistant", "", {"tool_calls": [call]}))
    with pytest.raises(InputError, match=r"messages\.1 is not valid Unicode"):
        model_of("gpt2", ROLES).prompts.encode_prompt([ChatTurns(turns)])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bare_text_gets_what_the_tokenizer_puts_first_and_no_template(family) -> None:
    model = model_of(family, ROLES)
    segments = model.prompts.encode_prompt([SystemText("Be brief."), BareText("The harbour")])
    ids = [i for segment in segments for i in segment.token_ids]
    native = model.native.encode("The harbour")
    last = max(i for i, special in enumerate(native.special_tokens_mask) if not special)
    assert ids == native.ids[: last + 1], "but for what the tokenizer puts behind a text"
