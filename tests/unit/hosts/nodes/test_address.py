"""Addresses are read as users write them, and say what doesn't answer there."""

import socket
import threading

import pytest

from heddle.core.errors import ConfigError
from heddle.hosts.nodes.address import Address, agent_addresses, dial


@pytest.mark.parametrize("text", ["10.0.0.2:7070", "node-1.lan:1", "[fd00::2]:65535"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(Address.of(text, "agents")) == text


@pytest.mark.parametrize(
    "text", ["", "node", "node:", ":70", "node:65536", "fd00::2", "a b:7", "[]:7", "my..node:7"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"agents: .* is no address: write HOST:PORT"):
        agent_addresses(f"10.0.0.2:7070,{text}")


def test_what_hangs_up_is_not_blamed_for_its_secret() -> None:
    def hang_up(listener: socket.socket) -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = threading.Thread(target=hang_up, args=(listener,))
        stranger.start()
        address = Address(*listener.getsockname())
        with pytest.raises(ConnectionError, match=f"at {address} doesn't answer as an agent"):
            dial(address, b"s" * 32)
        stranger.join()
