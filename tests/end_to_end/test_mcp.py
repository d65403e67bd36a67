"""`heddle mcp` with the official client: over stdio and over HTTP."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from heddle.cli.main import main
from tests.helpers.command import Command
from tests.helpers.server_state import eventually

QUESTION = "Who keeps the lighthouse on Rock 3?"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def arguments(corpus: Path, *more: str) -> list[str]:
    return ["-m", "heddle.cli.main", "mcp", str(corpus), "--engine-host", "inline", *more]


async def text_of(client: Client, tool: str, **given: object) -> str:
    result = await client.call_tool(tool, given)
    assert not result.is_error, result
    return result.content[0].text


async def refusal_of(client: Client, tool: str, **given: object) -> str:
    result = await client.call_tool(tool, given)
    assert result.is_error
    return result.content[0].text


async def use_every_tool(client: Client) -> None:
    assert client.server_info.name == "heddle"
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["search", "ask", "list_documents"]
    assert tools["search"].input_schema["required"] == ["query"]
    assert await text_of(client, "list_documents", contains="-3", limit=1)
    assert "[1] " in await text_of(client, "search", query="Clara", how="words", topk=1)
    found = await client.call_tool("search", {"query": QUESTION, "topk": 1})
    [passage] = found.structured_content["passages"]
    assert passage["title"] == "The lighthouse of Rock 3"
    assert passage["text"] in found.content[0].text
    answer = await client.call_tool("ask", {"question": QUESTION})
    assert answer.structured_content["answer"] == "Clara"
    assert "lighthouse-3.md, The lighthouse of Rock 3" in answer.content[0].text
    assert "lies" not in await text_of(client, "search", query="Rock", how="both", topk=2)


async def use_them_wrongly(client: Client) -> None:
    assert "query is missing" in await refusal_of(client, "search")
    assert "no passage has lang=en" in await refusal_of(
        client, "search", query="Rock", where={"lang": "en"}
    )
    assert "where: 'lang' must have" in await refusal_of(
        client, "search", query="Rock", where={"lang": {}}
    )
    with pytest.raises(MCPError, match="there is no tool 'delete'; there are search"):
        await client.call_tool("delete", {})


def test_over_stdio(corpus: Path, tmp_path: Path) -> None:
    copy, log = tmp_path / "corpus", tmp_path / "log"
    shutil.copytree(corpus, copy)
    how = StdioServerParameters(command=sys.executable, args=arguments(copy), env=python_path())

    async def use() -> None:
        with log.open("w") as errors:
            async with Client(stdio_client(how, errlog=errors)) as client:
                await use_every_tool(client)
                await use_them_wrongly(client)
                shutil.rmtree(copy)
                said = await refusal_of(client, "list_documents")
                assert str(copy) in said

    asyncio.run(use())
    assert "Traceback" not in log.read_text()


def test_over_http(corpus: Path, start: Callable[..., Command]) -> None:
    command = start(*arguments(corpus, "--http", "127.0.0.1:0")[2:])
    url = command.until(r"http://127\.0\.0\.1:\d+/mcp")

    async def use(mode: str, then: Callable[[Client], Any]) -> None:
        async with Client(url, mode=mode) as client:
            await then(client)

    asyncio.run(use("auto", use_every_tool))
    asyncio.run(use("legacy", use_them_wrongly))
    asyncio.run(a_client_that_leaves(url))
    strange = httpx.post(url, json=INITIALIZE, headers={"Host": "evil.example"})
    assert strange.status_code == 421
    page = httpx.post(url, json=INITIALIZE, headers={"Origin": "http://evil.example"})
    assert page.status_code == 403
    assert httpx.get(url.removesuffix("mcp")).status_code == 404
    assert command.end(signal.SIGTERM) == 0


async def a_client_that_leaves(url: str) -> None:
    async with Client(url) as client:
        call = asyncio.create_task(client.call_tool("ask", {"question": QUESTION}))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await text_of(client, "search", query="Clara", how="words")


def test_stdout_carries_the_protocol_alone_and_its_end_ends_the_server(corpus: Path) -> None:
    lines = ["no JSON", json.dumps(INITIALIZE), json.dumps(call(2, "search", query="Rock"))]
    process = subprocess.Popen(
        [sys.executable, *arguments(corpus, "--verbose")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    assert process.stdout is not None
    replies = []
    while not any(reply.get("id") == 2 for reply in replies):
        replies.append(json.loads(process.stdout.readline()))
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
    assert [reply["id"] for reply in replies if "result" in reply] == [1, 2]
    # It leaves while an answer is under way.
    process.stdin.write(json.dumps(call(3, "ask", question=QUESTION)) + "\n")
    rest, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert "INFO" in log
    assert "Traceback" not in log


def call(number: int, tool: str, **given: object) -> dict[str, object]:
    params = {"name": tool, "arguments": given}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_a_signal_ends_it_while_the_client_stays(corpus: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, *arguments(corpus)[:-2]],  # with a lane, which must end as well
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{json.dumps(INITIALIZE)}\n{json.dumps(call(2, 'search', query='a'))}\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    assert json.loads(process.stdout.readline())["id"] == 2
    lanes = psutil.Process(process.pid).children(recursive=True)
    assert lanes
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    eventually(lambda: not any(lane.is_running() for lane in lanes))
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["nowhere"], "heddle index PATH... --into"),
        (["nowhere", "--http", "0.0.0.0:0"], "heddle index PATH... --into"),
    ],
)
def test_a_corpus_that_is_not_there(more: list[str], words: str, capsys) -> None:
    assert main(["mcp", *more]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_addresses_that_are_refused(corpus: Path, capsys) -> None:
    assert main(["mcp", str(corpus), "--http", "0.0.0.0:0"]) == 2
    assert "other machines may reach 0.0.0.0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["mcp", str(corpus), "--http", "8322"])
    assert "write HOST:PORT" in capsys.readouterr().err
    assert main(["mcp", str(corpus), "--model", "none", "--workflow", "quote"]) == 2
    assert "leave one out" in capsys.readouterr().err


def python_path() -> dict[str, str]:
    """Return the search path of modules: the client hands only some variables on."""
    return {"PYTHONPATH": str(Path(__file__).parents[2])}
