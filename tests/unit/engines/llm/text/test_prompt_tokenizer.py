"""Joined segments decode to the joined text, and text never becomes a control token."""

import functools
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
)

from heddle.core.errors import ConfigError, InputError
from heddle.core.passages import Passage
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.system_text import SystemText
from heddle.engines.llm.text.chat_template import ChatTemplate
from heddle.engines.llm.text.prompt_tokenizer import CACHED_CHARS_MAX, PromptTokenizer
from tests.helpers.trained_tokenizers import SPECIALS, train

READER = "{{ bos_token }}<|user|>\n{{ messages[0]['content'] }}\n<|assistant|>{{ '\n' }}"
LLAMA2 = "{{ bos_token }}[INST] {{ messages[0]['content'] }} [/INST]"
SYSTEM_APART = (
    "{{ bos_token }}{% for m in messages %}<|user|>\n{% if m['role'] == 'system' %}"
    "SYS: {{ m['content'] }}<|end|>{% else %}{{ m['content'] }}{{ '\n' }}{% endif %}{% endfor %}"
    "<|assistant|>{{ '\n' }}"
)
PLAIN = "User: {{ messages[0]['content'] }}\nAssistant:"


@dataclass(frozen=True)
class Model:
    prompts: PromptTokenizer
    native: Tokenizer
    rendered: ChatTemplate | None

    def decoded(self, segments) -> str:
        ids = [i for s in segments for i in s.token_ids]
        return self.native.decode(ids, skip_special_tokens=False)


def save(folder: Path, tokenizer: Tokenizer, template: str | None, **settings) -> None:
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, **settings}
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))


@functools.cache
def model_of(family: str, template: str | None) -> Model:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder, train(family), template)
        return Model(
            PromptTokenizer.from_directory(folder),
            Tokenizer.from_file(str(folder / "tokenizer.json")),
            ChatTemplate.from_directory(folder),
        )


FAMILIES = [
    "gpt2",
    "gpt2_prefix_space",
    "qwen",
    "llama2_legacy",
    "metaspace_first",
    "metaspace_always",
    "metaspace_never",
    "hidden_line_space",
]
WORDS = [" ", "  ", "\n", "\t", "a", "The", " harbour", "ü", "東京", "測", "🙂", "it's", "##"]
pieces = st.sampled_from([*WORDS, ".", "<", "|>", "<|end|>", "<s>", "<|user|>", "<0x41>"])
texts = st.lists(pieces, max_size=8).map("".join)
passages = st.builds(
    Passage, chunk_id=st.integers(0, 99), document_id=st.just("d"), title=texts, text=texts
)
prompts = st.lists(st.one_of(texts, passages), min_size=1, max_size=4)


def text_of(part: str | Passage) -> str:
    return part.render() if isinstance(part, Passage) else part


@pytest.mark.parametrize("template", [READER, LLAMA2, PLAIN], ids=["reader", "llama2", "plain"])
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, derandomize=True)
@given(parts=prompts)
def test_joined_segments_decode_to_the_rendered_template(family, template, parts) -> None:
    if (family, template) == ("hidden_line_space", LLAMA2):
        parts = [*parts, "."]  # this tail starts with a space: not at a line's start here
    model = model_of(family, template)
    segments = model.prompts.encode_prompt(parts)
    assert model.rendered is not None
    content = "".join(map(text_of, parts))
    assert model.decoded(segments) == model.rendered.head + content + model.rendered.tail
    controls = {model.native.token_to_id(s) for s in SPECIALS}
    inner = {i for s in segments[1:-1] for i in s.token_ids}
    assert not inner & controls


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, derandomize=True)
@given(system=texts.filter(bool), parts=prompts)
def test_a_system_text_stands_where_the_template_has_it(family, system, parts) -> None:
    model = model_of(family, SYSTEM_APART)
    segments = model.prompts.encode_prompt([SystemText(system), *parts])
    assert len(segments) == len(parts) + 3, "part i is segment i + 1"
    content = "".join(map(text_of, parts))
    rendered = f"<s><|user|>\nSYS: {system}<|end|><|user|>\n{content}\n<|assistant|>\n"
    assert model.decoded(segments) == rendered
    own = [i for i in segments[1].token_ids if i in {model.native.token_to_id(s) for s in SPECIALS}]
    assert own == [model.native.token_to_id("<|end|>"), model.native.token_to_id("<|user|>")]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("template", [READER, None], ids=["reader", "none"])
@settings(max_examples=25, derandomize=True)
@given(system=texts.filter(bool), parts=prompts)
def test_without_a_place_for_it_a_system_text_begins_the_prompt(
    family, template, system, parts
) -> None:
    prompts_ = model_of(family, template).prompts
    whole = prompts_.encode_prompt([f"{system}\n\n", *parts])
    assert prompts_.encode_prompt([SystemText(system), *parts]) == whole


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, derandomize=True)
@given(parts=prompts)
def test_base_model_gets_what_its_post_processor_adds(family, parts) -> None:
    model = model_of(family, None)
    segments = model.prompts.encode_prompt(parts)
    assert segments[0].token_ids == (model.native.token_to_id("<s>"),)
    assert segments[-1].token_ids == ()
    assert model.decoded(segments) == "<s>" + "".join(map(text_of, parts))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, derandomize=True)
@given(parts=st.lists(st.tuples(st.one_of(texts, passages), st.booleans()), min_size=1, max_size=4))
def test_a_slot_that_is_filled_later_joins_the_same_text(family, parts) -> None:
    model = model_of(family, READER)
    if family == "hidden_line_space":  # a late text continues a line: its first space is hidden
        assume(not any(late and text_of(part).startswith(" ") for part, late in parts))
    segments = model.prompts.encode_prompt([None if late else part for part, late in parts])
    filled = list(segments)
    for i, (part, late) in enumerate(parts, start=1):
        assert segments[i].is_pending == late
        if late:
            assert segments[i].role is SegmentRole.SLOT
            filled[i] = Segment(model.prompts.encode_slot(text_of(part)), SegmentRole.SLOT)
    assert model.rendered is not None
    content = "".join(text_of(part) for part, _ in parts)
    assert model.decoded(filled) == model.rendered.head + content + model.rendered.tail


WHOLE = [("gpt2", READER), ("gpt2", LLAMA2), ("qwen", READER), ("qwen", LLAMA2)]


@pytest.mark.parametrize(("family", "template"), [*WHOLE, ("hidden_line_space", READER)])
def test_the_presets_have_the_ids_of_the_whole_text(family: str, template: str) -> None:
    model = model_of(family, template)
    notes = [Passage(i, "d", f"Title {i}", "The harbour was rebuilt. It turns.") for i in range(3)]
    parts = ["Answer the question from the notes.\n\n", *notes, "Question: ", "what is it?"]
    assert model.rendered is not None
    content = "".join(map(text_of, parts))
    whole = model.native.encode(
        model.rendered.head + content + model.rendered.tail, add_special_tokens=False
    )
    ids = [i for s in model.prompts.encode_prompt(parts) for i in s.token_ids]
    assert ids == whole.ids


def test_a_passage_has_the_same_ids_at_any_rank() -> None:
    for family in FAMILIES:
        prompts_ = model_of(family, READER).prompts
        notes = [Passage(i, "d", f"Title {i}", "The harbour.") for i in range(3)]
        there = prompts_.encode_prompt(["Notes:\n\n", *notes, "Question: ", "x"])[2:5]
        back = prompts_.encode_prompt(["Other\n", *reversed(notes)])[2:5]
        assert there == tuple(reversed(back))


def test_template_text_is_encoded_as_the_model_knows_it() -> None:
    model = model_of("qwen", READER)
    head, *_, tail = model.prompts.encode_prompt(["x"])
    assert model.native.id_to_token(head.token_ids[0]) == "<s>"
    assert model.native.id_to_token(head.token_ids[1]) == "<|user|>"
    assert "<|assistant|>" in [model.native.id_to_token(i) for i in tail.token_ids]
    # Our ids of the whole are the native ones where no border falls inside a native token.
    native = model.native.encode(
        "<s><|user|>\nThe harbour\n<|assistant|>\n", add_special_tokens=False
    )
    ids = [i for s in model.prompts.encode_prompt(["The harbour"]) for i in s.token_ids]
    assert ids == native.ids


def test_roles_and_chunk_ids() -> None:
    passage = Passage(7, "d", "Harbour", "It was rebuilt.")
    segments = model_of("gpt2", READER).prompts.encode_prompt(["Notes\n", passage, "", None])
    roles = [s.role for s in segments]
    text = SegmentRole.TEXT
    assert roles == [text, text, SegmentRole.CHUNK, text, SegmentRole.SLOT, text]
    assert [s.chunk_id for s in segments] == [None, None, 7, None, None, None]
    assert segments[3].token_ids == ()


def test_a_vocabulary_that_holds_control_tokens_as_words() -> None:
    model = model_of("unigram", READER)
    controls = {model.native.token_to_id(s) for s in SPECIALS}
    text = "a <s> b<|end|>"
    ids = model.prompts.encode_slot(text)
    assert not set(ids) & controls
    assert model.native.decode(ids, skip_special_tokens=False) == text


def test_added_tokens_that_the_template_writes_are_controls_too(tmp_path: Path) -> None:
    tokenizer = train("gpt2")
    tokenizer.add_tokens(
        [AddedToken("[INST]", special=False), AddedToken("<think>", special=False)]
    )
    save(tmp_path, tokenizer, LLAMA2)
    prompts_ = PromptTokenizer.from_directory(tmp_path)
    inst, think = tokenizer.token_to_id("[INST]"), tokenizer.token_to_id("<think>")
    assert inst in prompts_.encode_prompt(["x"])[0].token_ids
    assert inst not in prompts_.encode_slot("[INST] x")
    assert think in prompts_.encode_slot("<think> x")  # a word of the model, no control


def test_control_words_in_text_are_ordinary_text_to_the_model() -> None:
    prompts_ = model_of("gpt2", READER).prompts
    assert len(prompts_.encode_slot("<|user|>")) < len("<|user|>")  # its merges still apply


@pytest.mark.parametrize("family", ["llama2_legacy", "metaspace_first", "metaspace_always"])
def test_the_very_first_text_starts_as_the_model_knows_it(family: str, tmp_path: Path) -> None:
    tokenizer = train(family)
    spec = json.loads(tokenizer.to_str())
    spec["post_processor"] = None
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    save(tmp_path, tokenizer, None)
    for text in ["The harbour", " The", "  a"]:
        ids = PromptTokenizer.from_directory(tmp_path).encode_prompt([text])[1].token_ids
        assert tokenizer.decode(ids) == text
        if not text.startswith(" ") or family == "llama2_legacy":  # else the model's own loses it
            assert ids == tuple(tokenizer.encode(text).ids)
    save(tmp_path, tokenizer, PLAIN)
    head = PromptTokenizer.from_directory(tmp_path).encode_prompt([" x"])[0]
    assert head.token_ids == tuple(tokenizer.encode("User: ").ids)


def test_unknown_text_may_give_the_unknown_token() -> None:
    model = model_of("unigram", READER)
    unknown = model.native.token_to_id("<unk>")
    assert unknown in model.prompts.encode_slot("\U0001f98a")


def test_passages_are_cached_and_long_text_is_not() -> None:
    prompts_ = model_of("gpt2", LLAMA2).prompts
    passage = Passage(1, "d", "T", "cached once")
    first = prompts_.encode_prompt([passage])[1].token_ids
    assert prompts_.encode_prompt([passage])[1].token_ids is first
    long = "a " * CACHED_CHARS_MAX
    assert prompts_.encode_slot(long) is not prompts_.encode_slot(long)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"text_config": {"max_position_embeddings": 256}}, 256),
        (
            {
                "max_position_embeddings": 40960,
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 32768,
                },
            },
            131072,
        ),
    ],
)
def test_context_length(tmp_path: Path, config: dict, tokens: int) -> None:
    save(tmp_path, train("gpt2"), None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert PromptTokenizer.from_directory(tmp_path).context_tokens_max == tokens


def test_template_file_wins_and_named_templates_have_a_default(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": PLAIN}]
    save(tmp_path, train("gpt2"), None, chat_template=named)
    rendered = ChatTemplate.from_directory(tmp_path)
    assert rendered is not None
    assert (rendered.head, rendered.tail) == ("User: ", "\nAssistant:")
    (tmp_path / "chat_template.jinja").write_text(LLAMA2)
    rendered = ChatTemplate.from_directory(tmp_path)
    assert rendered is not None
    assert rendered.head == "<s>[INST] "


def test_template_features_that_models_use(tmp_path: Path) -> None:
    template = (
        "{%- for m in messages %}\n    {%- if m['role'] not in ['user'] %}"
        "{{ raise_exception('bad role') }}{% endif %}\n"
        "{% generation %}{{ m['content'][0]['text'] | trim }}{% endgeneration %}"
        "{% if loop.first %}{% break %}{% endif %}{% endfor %}"
        "{{ strftime_now('%Y') | length }}{{ {'a': '<é>'} | tojson }}{{ eos_token }}"
    )
    save(tmp_path, train("gpt2"), template)
    rendered = ChatTemplate.from_directory(tmp_path)
    assert rendered is not None
    assert (rendered.head, rendered.tail) == ("", '4{"a": "<é>"}</s>')


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json; save it with save_pretrained"):
        PromptTokenizer.from_directory(tmp_path)
    save(tmp_path, train("gpt2"), "{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ConfigError, match="roles must alternate"):
        PromptTokenizer.from_directory(tmp_path)
    save(tmp_path, train("gpt2"), "always the same")
    with pytest.raises(ConfigError, match="exactly once"):
        PromptTokenizer.from_directory(tmp_path)
    save(tmp_path, train("gpt2"), "{{ ().__class__.__bases__ }}")
    with pytest.raises(ConfigError, match="can't be rendered"):
        PromptTokenizer.from_directory(tmp_path)
    save(tmp_path, train("gpt2"), None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="max_position_embeddings"):
        PromptTokenizer.from_directory(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(ConfigError, match="can't be read as a tokenizer"):
        PromptTokenizer.from_directory(tmp_path)


def test_a_template_that_fails_where_it_is_given_parts_is_no_internal_error(tmp_path: Path) -> None:
    twice = "{% for m in messages %}{{ '<|user|>' + m['content'] + m['content'] }}{% endfor %}"
    save(tmp_path, train("gpt2"), twice)
    with pytest.raises(ConfigError, match="exactly once"):
        ChatTemplate.from_directory(tmp_path)
    parts_of_users = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ '<|sys|>' + m['content'] }}"
        "{% else %}{{ m['content'][0]['text'] }}{% endif %}{% endfor %}"
    )
    save(tmp_path, train("gpt2"), parts_of_users)
    template = ChatTemplate.from_directory(tmp_path)
    assert template is not None
    assert (template.wraps_content, template.system_head) == (True, None)


def test_text_that_is_no_unicode_is_an_input_error() -> None:
    with pytest.raises(InputError, match="Unicode"):
        model_of("gpt2", READER).prompts.encode_slot("junk \ud800")


@pytest.mark.parametrize("family", ["gpt2", "qwen", "hidden_line_space", "metaspace_never"])
def test_a_prompt_that_cannot_fit_is_refused_and_not_tokenised(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts_ = model_of(family, READER).prompts
    monkeypatch.setattr(prompts_, "_encode_part", None)  # a call of it fails
    with pytest.raises(InputError, match=r"at least \d+ tokens, and 512 fit .*shorten"):
        prompts_.check_length(["\U0001f98a" * 32_768])
    prompts_.check_length(["\U0001f98a" * 100])


def test_where_a_token_may_stand_for_any_text_nothing_is_refused_ahead() -> None:
    model_of("unigram", READER).prompts.check_length(["\U0001f98a" * 32_768])


def test_the_context_may_be_less_than_the_models(tmp_path: Path) -> None:
    save(tmp_path, train("gpt2"), READER)
    prompts_ = PromptTokenizer.from_directory(tmp_path, context_tokens_max=100)
    assert prompts_.context_tokens_max == 100
    with pytest.raises(InputError, match="100 fit"):
        prompts_.check_length(["\U0001f98a" * 101])


def test_the_main_process_stays_light() -> None:
    code = (
        "import sys, heddle.engines.llm.text.prompt_tokenizer; "
        "sys.exit(bool({'torch', 'transformers', 'faiss'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
