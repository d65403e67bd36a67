"""Addresses are read as users write them."""

import pytest

from heddle.core.errors import ConfigError
from heddle.hosts.nodes.address import Address, agent_addresses


@pytest.mark.parametrize("text", ["10.0.0.2:7070", "node-1.lan:1", "[fd00::2]:65535"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(Address.of(text, "agents")) == text


@pytest.mark.parametrize(
    "text", ["", "node", "node:", ":70", "node:65536", "fd00::2", "a b:7", "[]:7"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"agents: .* is no address: write HOST:PORT"):
        agent_addresses(f"10.0.0.2:7070,{text}")
