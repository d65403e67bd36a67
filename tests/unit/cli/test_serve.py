"""What `heddle serve` refuses before it loads a model."""

import socket
import sys
from pathlib import Path

import pytest

from heddle.cli.main import main
from heddle.cli.serve import _bound_socket, _greeting
from heddle.core.errors import ConfigError
from heddle.server.http_config import HttpConfig

GRAPH = "from heddle import RAGraph\n{name} = RAGraph().add_generation('a', 'Say {{query}}.')\n"


def refused(capsys, *arguments: str) -> str:
    assert main(["serve", "corpus", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    return said


@pytest.mark.parametrize("package", ["uvicorn", "fastapi"])
def test_a_missing_extra_is_named_with_its_command(
    package: str, capsys, monkeypatch: pytest.MonkeyPatch
):
    for name in [n for n in sys.modules if n.startswith("heddle.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert 'pip install "heddle[server]"' in refused(capsys)


def test_a_port_in_use(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(capsys, "--port", str(port))
    assert f"--port {port} on 127.0.0.1 can't be used (Address already in use)" in said


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none(port: str, capsys):
    with pytest.raises(SystemExit):
        main(["serve", "corpus", f"--port={port}"])
    said = capsys.readouterr().err
    assert f"argument --port: port must be an integer from 0 to 65535, got {port}" in said


def test_a_limit_that_lets_no_request_in(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEDDLE_LIMIT_CONCURRENCY", "0")
    assert "HEDDLE_LIMIT_CONCURRENCY: limit_concurrency must be an integer" in refused(capsys)


@pytest.mark.parametrize("host", ["no host", "192.0.2.1", "my..host"])
def test_a_host_that_is_not_here(host: str, capsys):
    assert host in refused(capsys, "--host", host, "--port", "0")


def test_no_corpus(capsys, tmp_path: Path):
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "heddle index PATH... --into" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (GRAPH.format(name="oneshot"), "oneshot", "the name 'oneshot' is taken"),
        (GRAPH.format(name="mine"), "yours", "'yours' is no RAGraph"),
        ("mine = 1 / 0", "mine", "ZeroDivisionError"),
        ("mine = (", "mine", "SyntaxError"),
    ],
)
def test_a_workflow_file_that_can_not_be_used(
    text: str, name: str, words: str, capsys, tmp_path: Path
):
    file = tmp_path / "flows.py"
    file.write_text(text)
    assert words in refused(capsys, "--workflow", f"{file}:{name}")


def test_a_workflow_file_that_is_missing(capsys):
    assert "there is no file 'nope.py'" in refused(capsys, "--workflow", "nope.py:x")


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_the_greeting_names_the_real_port(host: str, shown: str):
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    front = HttpConfig(host=host, port=0)
    with _bound_socket(front) as listener:
        port = listener.getsockname()[1]
        said = _greeting(Path("corpus"), listener, front)
    assert f"http://{shown}:{port} " in said
    assert f"curl -N http://{shown}:{port}/v1/ask" in said


def test_the_greeting_names_the_header_of_keys_and_https():
    plain = HttpConfig(port=0)
    files = {"api_key_file": "keys.toml", "tls_cert": "my cert.pem", "tls_key": "key.pem"}
    closed = HttpConfig(port=0, **files)
    with _bound_socket(plain) as listener:
        said = _greeting(Path("corpus"), listener, closed)
        simple = _greeting(Path("corpus"), listener, plain)
    assert "Authorization" not in simple
    assert "--cacert" not in simple
    assert '-H "Authorization: Bearer $HEDDLE_API_KEY" -H' in said
    assert "curl -N --cacert 'my cert.pem' https://127.0.0.1:" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::ffff:0.0.0.0"])
def test_other_machines_are_not_served_without_keys(host: str, capsys):
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    said = refused(capsys, "--host", host, "--port", "0")
    assert "--api-key-file FILE" in said
    assert "--insecure" in said


@pytest.mark.parametrize("allowed", [{"insecure": True}, {"api_key_file": "keys.toml"}])
def test_other_machines_are_served_with_keys_or_if_the_user_insists(allowed: dict[str, object]):
    with _bound_socket(HttpConfig(host="0.0.0.0", port=0, **allowed)) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_this_machine_is_served_without_keys(host: str):
    with _bound_socket(HttpConfig(host=host, port=0)) as listener:
        assert listener.getsockname()[0] in ("127.0.0.1", "127.0.0.2", "::1")


def test_a_name_that_stands_for_another_address_is_refused(monkeypatch: pytest.MonkeyPatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("0.0.0.0", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(ConfigError, match=r"other machines may reach 0\.0\.0\.0"):
        _bound_socket(HttpConfig(host="localhost", port=0))


def test_a_key_file_that_can_not_be_used(capsys, tmp_path: Path):
    file = tmp_path / "keys.toml"
    assert "can't be read: No such file" in refused(capsys, "--api-key-file", str(file))
    file.touch()
    file.chmod(0o602)
    assert "chmod 600" in refused(capsys, "--api-key-file", str(file))


@pytest.mark.parametrize(("given", "missing"), [("cert", "key"), ("key", "cert")])
def test_a_certificate_goes_with_its_key(given: str, missing: str, capsys):
    said = refused(capsys, f"--tls-{given}", "a.pem")
    assert f"--tls-{given} needs --tls-{missing}" in said


def test_a_certificate_that_is_missing(capsys):
    said = refused(capsys, "--tls-cert", "no.pem", "--tls-key", "no.pem")
    assert "--tls-cert no.pem can't be read: No such file" in said
