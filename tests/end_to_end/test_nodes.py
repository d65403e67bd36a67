"""LLM lanes on nodes, each with an agent of its own: the same answers, also when a node is lost."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import Server
from heddle.cli.main import main
from heddle.core.errors import ConfigError
from heddle.hosts.nodes.secret import write_secret
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.command import Command
from tests.helpers.port_reader import is_running
from tests.helpers.server_state import eventually, holds_nothing, pid_of

QUESTION = "Who is the keeper of Rock 3?"
NAMES = ("north", "east", "south")
SETTINGS = {"dtype": "float32", "kv_cache_bytes": KV_BYTES}


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cluster") / "secret"
    write_secret(file)
    return file


@pytest.fixture(scope="module")
def agents(secret: Path) -> Iterator[dict[str, Command]]:
    common = ("agent", "--listen", "127.0.0.1:0", "--cluster-secret-file", secret)
    started = {name: Command([*common, "--name", name]) for name in NAMES}
    yield started
    for command in started.values():
        command.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def addresses(agents: dict[str, Command]) -> dict[str, str]:
    said = {name: command.until(r"listens at \S+:\d+") for name, command in agents.items()}
    return {name: text.removeprefix("listens at ") for name, text in said.items()}


@pytest.fixture(scope="module")
def server(model: Path, corpus: Path, secret: Path, addresses: dict[str, str]) -> Iterator[Server]:
    nodes = {"agents": ",".join(addresses.values()), "cluster_secret_file": secret}
    with Server(model, corpus, replicas="llm=2", **nodes, **SETTINGS) as running:
        yield running


def places(server: Server) -> dict[str, str]:
    return {name: lane.place for name, lane in server.state().lanes.items()}


def test_the_plan_names_the_nodes(
    model: Path, corpus: Path, secret: Path, addresses: dict[str, str], capsys
):
    options = ["--index", corpus, "--model", model, "--replicas", "llm=2", "--dtype", "float32"]
    options += ["--agents", ",".join(addresses.values()), "--cluster-secret-file", secret]
    assert main(["doctor", *map(str, options)]) == 0
    said = capsys.readouterr().out
    assert "node north: 1 of " in said
    assert "llm-both-0 on north: cores 0" in said
    assert "llm-both-1 on east: " in said
    assert "           llm: on nodes north, east\n" in said


def test_answers_are_those_of_one_process_and_outlive_a_node(
    server: Server, inline_server: Server, agents: dict[str, Command]
):
    assert places(server) == {"retrieval": "", "llm-both-0": "north", "llm-both-1": "east"}
    expected = inline_server.app("oneshot").invoke(QUESTION)
    together = server.app("oneshot").batch([QUESTION] * 6)
    assert {answer.text for answer in together} == {expected.text}
    assert together[0].passages == expected.passages

    lost = pid_of(server, "llm-both-0")
    handles = [server.submit("oneshot", f"{QUESTION} {n}") for n in range(6)]
    agents["north"].process.send_signal(signal.SIGKILL)
    handles += [server.submit("oneshot", f"{QUESTION} {n}") for n in range(6, 12)]
    for handle in handles:
        assert handle.result(timeout_s=60).text
    eventually(lambda: server.health()["status"] == "ok" and holds_nothing(server))
    assert places(server)["llm-both-0"] == "south", "the node that had room"
    eventually(lambda: not is_running(lost))
    assert server.app("oneshot").invoke(QUESTION).text == expected.text


def test_a_frozen_lane_is_replaced_on_its_node(server: Server, inline_server: Server):
    before = pid_of(server, "llm-both-1")
    os.kill(before, signal.SIGSTOP)
    for handle in [server.submit("oneshot", f"{QUESTION} {n}") for n in range(6)]:
        assert handle.result(timeout_s=60).text
    eventually(
        lambda: (
            server.state().lanes["llm-both-1"].pid not in (None, before)
            and server.health()["status"] == "ok"
        )
    )
    assert places(server)["llm-both-1"] == "east"
    expected = inline_server.app("oneshot").invoke(QUESTION)
    assert server.app("oneshot").invoke(QUESTION).text == expected.text


def test_what_can_not_be_is_refused_with_the_numbers(
    model: Path, corpus: Path, secret: Path, addresses: dict[str, str], tmp_path: Path
):
    two = f"{addresses['east']},{addresses['south']}"

    def refusal(**settings: object) -> str:
        given = {"agents": two, "cluster_secret_file": secret, **SETTINGS, **settings}
        with pytest.raises(ConfigError) as raised:
            Server(model, corpus, **given)
        return str(raised.value)

    assert "want 3 LLM lanes of role both" in refusal(replicas="llm=3")
    assert "the nodes are 2 (east, south)" in refusal(replicas="llm=3")
    assert "device" in refusal(device="cuda")
    assert "0 GPUs" in refusal(device="cuda")
    assert "cluster_secret_file" in refusal(cluster_secret_file=None)
    other = tmp_path / "other"
    write_secret(other)
    assert "it has another secret" in refusal(cluster_secret_file=other)
    assert other.read_text().strip() not in refusal(cluster_secret_file=other)
    secret_of_all = tmp_path / "open"
    secret_of_all.write_text("x" * 40)
    secret_of_all.chmod(0o644)
    assert "other users can read" in refusal(cluster_secret_file=secret_of_all)
    assert "no agent answers at 127.0.0.1:1" in refusal(agents="127.0.0.1:1")
    assert "HOST:PORT" in refusal(agents="somewhere")
    assert refusal(optimizations="approx").startswith("optimizations is 'approx', which reuses")
    assert "both called 'east'" in refusal(agents=f"{addresses['east']},{addresses['east']}")
