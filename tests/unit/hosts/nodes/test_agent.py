"""An agent goes on listening where a connection can't be served."""

import threading

import pytest

from heddle.core.errors import ConfigError
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.agent import Agent
from heddle.hosts.nodes.facts import ask_nodes

SECRET = b"the secret of a cluster in a test"


def test_where_there_is_no_thread_left_the_next_server_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if "_welcome" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with Agent("node-1", Address("127.0.0.1", 0), SECRET) as agent:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", refused)
            with pytest.raises(ConfigError, match="doesn't answer as an agent"):
                ask_nodes([agent.address], SECRET, "agents")
        [node] = ask_nodes([agent.address], SECRET, "agents")
    assert node.name == "node-1"
