"""A server with keys, as its operator starts it and its clients use it."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.helpers.certificates import self_signed
from tests.helpers.command import Command

QUESTION = {"query": "wool"}


def new_key(start, file: Path, name: str, *more: str) -> dict[str, str]:
    command = start("keys", "new", file, name, *more)
    key = command.until(r"heddle-\S{43}")
    assert command.end() == 0
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


@pytest.fixture
def served(start, corpus: Path, file: Path) -> Iterator:
    def serve(*more: object) -> tuple[Command, str]:
        command = start("serve", corpus, "--port", 0, "--api-key-file", file, *more)
        url = command.until(r"https?://[\d.]+:\d+")
        command.until("Ctrl-C")
        return command, url

    return serve


def test_only_keys_open_it_and_each_reads_its_own_tenant(start, served, file: Path):
    ann = new_key(start, file, "ann", "--tenant", "a", "--scopes", "ask,write")
    bob = new_key(start, file, "bob", "--tenant", "b")
    _, url = served("--allow-changes", "--host", "0.0.0.0")
    with httpx.Client(base_url=url, timeout=60) as client:
        for path in ("/health", "/ready", "/version"):
            assert client.get(path).status_code == 200
        assert client.post("/v1/search", json=QUESTION).status_code == 401
        secret = {"id": "secret", "text": "Ann's wool is kept in the mill."}
        assert client.post("/v1/documents", json=secret, headers=bob).status_code == 403
        assert client.post("/v1/documents", json=secret, headers=ann).status_code == 200

        def found(headers: dict[str, str], **more: object) -> list[str]:
            reply = client.post("/v1/search", json={**QUESTION, **more}, headers=headers)
            return [passage["document_id"] for passage in reply.json()["passages"]]

        assert "secret" in found(ann)
        assert "secret" in found(ann, tenant="a")
        assert "secret" not in found(bob)
        stolen = client.post("/v1/search", json={**QUESTION, "tenant": "a"}, headers=bob)
        assert stolen.status_code == 403
        assert client.get("/metrics", headers=ann).status_code == 403
        client.request("DELETE", "/v1/documents", params={"id": "secret"}, headers=ann)


def test_it_serves_https_and_a_command_asks_it_with_the_users_key(
    start, served, corpus: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = self_signed(tmp_path)
    ann = new_key(start, file, "ann", "--tenant", "a")
    _, url = served("--tls-cert", made.certificate, "--tls-key", made.key)
    assert url.startswith("https://")
    trusted = ssl.create_default_context(cafile=made.certificate)
    with httpx.Client(base_url=url, timeout=60, verify=trusted) as client:
        assert client.get("/ready").json() == {"ready": True}
        assert client.post("/v1/search", json=QUESTION).status_code == 401
        assert client.post("/v1/search", json=QUESTION, headers=ann).status_code == 200
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{url}/ready")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{url}/ready".replace("https", "http"))

    monkeypatch.setenv("HEDDLE_API_KEY", ann["Authorization"].removeprefix("Bearer "))
    command = start("search", corpus, "wool")
    assert command.end() == 0
    assert "found by the running server at https://127.0.0.1" in command.said
    monkeypatch.setenv("HEDDLE_API_KEY", "heddle-other")
    command = start("search", corpus, "wool")
    assert command.end() == 2
    assert "this server doesn't know the key" in command.said
    assert "heddle-other" not in command.said
    monkeypatch.delenv("HEDDLE_API_KEY")
    command = start("search", corpus, "wool")
    assert command.end() == 0
    assert "one is started: it asks for a key: set HEDDLE_API_KEY" in command.said
