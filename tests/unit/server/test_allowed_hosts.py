"""A page of somebody else's can't ask the server by a name of its own."""

import asyncio

import httpx
import pytest
from starlette.responses import Response

from heddle.server.allowed_hosts import AllowedHosts, host_name


def status(host: str, *names: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(AllowedHosts(Response("well"), names))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/", headers={"Host": host})

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8321", "127.0.0.1:8321", "10.1.2.3", "[::1]:8321", "localhost.", ""],
)
def test_addresses_and_localhost_pass(host: str):
    assert status(host).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8321", "localhost.evil.example", "127.0.0.1.evil.example", "*"],
)
def test_a_name_that_nobody_has_allowed_is_refused_with_the_fix(host: str):
    refused = status(host)
    assert refused.status_code == 421
    error = refused.json()["error"]
    assert error["type"] == "MisdirectedRequest"
    assert "--allowed-hosts NAME" in error["message"]


def test_an_allowed_name_passes_with_any_port_and_in_any_letters():
    assert status("Archive.Example:80", "archive.example").status_code == 200
    assert status("other.example", "archive.example").status_code == 421
    assert status("other.example", "*").status_code == 200


def test_no_control_character_of_a_name_comes_back():
    assert "\\x1b" in status("evil\x1b[31m").json()["error"]["message"]


def test_the_name_in_a_header():
    assert host_name("[fe80::1]:80") == "fe80::1"
    assert host_name(" Heddle.Example.:80 ") == "heddle.example"
