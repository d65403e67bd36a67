"""The tutorial holds: its blocks run in their order, and print the lines that stand below them.

Commands run in this process, their engines too; only the server is a process of its own.
"""

import re
import runpy
import shlex
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

import heddle
from heddle.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/start/tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"^cat > (?P<name>\S+) <<'EOF'\n(?P<text>.*?)^EOF$|^(?P<line>[^\n]+)$", re.DOTALL | re.MULTILINE
)


class Step(NamedTuple):
    """A block of commands, and the lines that stand below it as its output, in their order."""

    commands: str
    shown: list[str]


def steps() -> Iterator[Step]:
    """Return the tutorial's blocks; a Python block is one that writes its file."""
    blocks = [*BLOCK.findall(PAGE.read_text(encoding="utf-8")), ("", "")]
    for (language, text), (next_language, output) in pairwise(blocks):
        if language == "python":
            name = text.partition("\n")[0].removeprefix("# ")
            yield Step(f"cat > {name} <<'EOF'\n{text}EOF\n", [])
        elif language == "sh":
            yield Step(text, output.splitlines() if next_language == "text" else [])


def commands(text: str) -> Iterator[list[str]]:
    """Write the files of a block, and return the words of its other commands, in their order."""
    for found in COMMAND.finditer(text.replace("\\\n", " ")):
        if found["name"] is not None:
            Path(found["name"]).write_text(found["text"], encoding="utf-8")
        else:
            yield shlex.split(found["line"])


def test_what_the_tutorial_says(
    start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, inline
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    inline_server = partial(heddle.Server, engine_host="inline")
    monkeypatch.setattr(heddle, "Server", inline_server, raising=False)
    url, ran = "", []
    for step in steps():
        for words in commands(step.commands):
            ran.append(" ".join(words[:2]))
            match words:
                case ["mkdir", name]:
                    Path(name).mkdir()
                case ["heddle", "serve", *arguments]:
                    url = start("serve", *arguments, "--port", 0).until(r"http://[\d.]+:\d+")
                case ["heddle", *arguments]:
                    assert main(arguments) == 0
                case ["curl", address, *_, "-d", body]:
                    path = address.removeprefix("http://127.0.0.1:8321")
                    headers = {"Content-Type": "application/json"}
                    reply = httpx.post(url + path, content=body, headers=headers, timeout=60)
                    assert reply.json()["answer"] == "five euros"
                case ["python", program]:
                    runpy.run_path(program)
                case _:
                    pytest.fail(f"the tutorial has a command that this test doesn't run: {words}")
        printed = iter(line.strip() for line in capsys.readouterr().out.splitlines())
        missing = [line for line in step.shown if line.strip() not in printed]
        assert missing == [], step.commands
    assert {"heddle index", "heddle ask", "heddle explain", "heddle serve"} <= set(ran)
