"""Prompts in files: the model's own, and the one that a user names."""

from pathlib import Path

import pytest

from heddle.app.models.prompt_files import PROMPTS_FILE, prompts_of
from heddle.app.server_config import ServerConfig
from heddle.app.server_writing import server_writing
from heddle.core.errors import ConfigError, HeddleError
from heddle.workflow.nodes import PromptRole
from heddle.workflow.writing import PROMPT_CHARS_MAX, Writing


def test_a_model_may_bring_prompts_or_not(tmp_path: Path):
    assert prompts_of(tmp_path) == {}
    (tmp_path / PROMPTS_FILE).write_text('{"answer": {"prompt": "{docs}{query}"}}')
    assert list(prompts_of(tmp_path)) == [PromptRole.ANSWER]
    (tmp_path / PROMPTS_FILE).write_text('{"reply": {}}')
    with pytest.raises(ConfigError, match=f"{PROMPTS_FILE}: 'reply' is no prompt's role"):
        prompts_of(tmp_path)


def test_a_server_reads_the_template_once(tmp_path: Path):
    file = tmp_path / "prompt.txt"
    file.write_text("{docs}Q: {input}\n")
    config = ServerConfig(max_tokens=9, temperature=0.5, system="Be brief.", prompt_file=file)
    assert server_writing(config) == Writing(9, 0.5, "Be brief.", "{docs}Q: {input}")
    assert server_writing(ServerConfig()) == Writing()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "prompt: .* can't be read: No such file"),
        (b"\xff\xfe", "can't be read: it is no UTF-8"),
        (b"x" * (PROMPT_CHARS_MAX + 1), "has more than 32,768 characters"),
        (b"{docs", "prompt: "),
        (b"\n", "prompt must be a text that is not empty"),
    ],
)
def test_a_template_that_can_not_be_used(tmp_path: Path, content: bytes | None, words: str):
    file = tmp_path / "prompt.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(HeddleError, match=words):
        server_writing(ServerConfig(prompt_file=str(file)))
