"""Prompts of a remote model: text, with the system text apart."""

from heddle.core.passages import Passage
from heddle.core.payloads import PrefillPayload
from heddle.core.system_text import SystemText
from heddle.engines.remote.generation.prompt_text import TextPrompts


def test_a_prompt_is_its_text_and_its_system_text_stands_apart():
    passage = Passage(7, "d", "Mills", "Ann built it.")
    parts = (SystemText("Be brief."), "Read.\n\n", passage, "Who?")
    asked = PrefillPayload(TextPrompts().encode_prompt(parts))
    assert asked.system == "Be brief."
    assert asked.text == f"Read.\n\n{passage.render()}Who?"
    assert PrefillPayload(TextPrompts().encode_prompt(parts[1:])).system == ""
