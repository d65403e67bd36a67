"""What the agents of nodes report, asked of all at once."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from heddle.core.errors import ConfigError
from heddle.hosts.machine import MachineFacts
from heddle.hosts.nodes.address import Address, dial
from heddle.hosts.nodes.messages import AskFacts, HoldAgent, NodeReport, build
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed

ANSWER_S_MAX = 5.0


class Node(NamedTuple):
    """A node: its name, its agent's address, what lanes may use there, its NUMA nodes' cores."""

    name: str
    address: Address
    machine: MachineFacts
    numa_nodes: tuple[tuple[int, ...], ...]


def ask_nodes(addresses: Sequence[Address], secret: bytes, field: str) -> tuple[Node, ...]:
    """Return the nodes behind these addresses, in their order; asks all side by side.

    Raises: ConfigError: one doesn't answer, has another secret or another Heddle, or two have one
        name; the message names the field.
    """
    with ThreadPoolExecutor(len(addresses), "ask-node") as threads:
        asked = [threads.submit(_ask, address, secret) for address in addresses]
    nodes: dict[str, Node] = {}
    for address, answer in zip(addresses, asked, strict=True):
        try:
            report = answer.result()
        except OSError as error:
            raise ConfigError(f"{field}: {error}") from error
        if report.build != build():
            raise ConfigError(
                f"{field}: node {report.name} at {address} runs {report.build}, and this server "
                f"{build()}: install the same on both"
            )
        if report.name in nodes:
            raise ConfigError(
                f"{field}: the agents at {nodes[report.name].address} and {address} are both "
                f"called {report.name!r}: give one of them another --name"
            )
        nodes[report.name] = Node(report.name, address, report.machine, report.numa_nodes)
    return tuple(nodes.values())


def hold(node: Node, secret: bytes) -> Channel:
    """Hold an agent that belongs to this server, until the channel is closed.

    Raises: ConfigError: it can't be reached any more.
    """
    try:
        channel = dial(node.address, secret)
        channel.send(HoldAgent())
    except (OSError, ChannelClosed) as error:
        raise ConfigError(f"ray: node {node.name}: {error}") from error
    return channel


def _ask(address: Address, secret: bytes) -> NodeReport:
    channel = dial(address, secret)
    until_s = time.monotonic() + ANSWER_S_MAX
    try:
        channel.send(AskFacts())
        while (left_s := until_s - time.monotonic()) > 0:
            for message in channel.receive(wait_s=left_s):
                if isinstance(message, NodeReport):
                    return message
    except ChannelClosed as error:
        raise ConnectionError(f"the agent at {address} hung up: {error}") from error
    finally:
        channel.close()
    raise ConnectionError(f"the agent at {address} did not answer within {ANSWER_S_MAX:g} s")
