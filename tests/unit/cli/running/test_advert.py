"""The file that says which server answers from a corpus."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from heddle import ServerConfig
from heddle.cli.running.advert import FILE_NAME, ServerAdvert, advertised

CONFIG = ServerConfig(index="corpus")


def advert(host: str = "127.0.0.1") -> ServerAdvert:
    found = ServerAdvert.of(CONFIG, host, 8321)
    assert found is not None
    return found


def test_it_is_there_as_long_as_the_server(tmp_path: Path):
    own = advert()
    with advertised(tmp_path, own):
        assert ServerAdvert.read(tmp_path) == own
        assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []
    assert own.is_alive
    assert own.settings["generator"] == "extract"


@pytest.mark.parametrize(
    ("generator", "workflow"), [("reader", "oneshot"), ("extract", "quote"), (None, "quote")]
)
def test_it_says_how_the_server_answers(generator: str | None, workflow: str):
    own = ServerAdvert.of(ServerConfig(generator, "corpus"), "127.0.0.1", 8321)
    assert own is not None
    assert own.default_workflow == workflow == ServerConfig(generator, "corpus").default_workflow


def test_another_servers_file_stays(tmp_path: Path):
    other = advert()
    with advertised(tmp_path, advert()):
        (tmp_path / FILE_NAME).write_text(
            json.dumps(
                {**json.loads((tmp_path / FILE_NAME).read_text()), "instance": other.instance}
            )
        )
    found = ServerAdvert.read(tmp_path)
    assert found is not None
    assert found.instance == other.instance


def test_a_server_that_runs_beside_is_named_again(tmp_path: Path, caplog):
    first = advert()
    with advertised(tmp_path, first):
        with advertised(tmp_path, replace(advert(), port=8322)):
            found = ServerAdvert.read(tmp_path)
            assert found is not None
            assert found.port == 8322
        assert "another server runs on this corpus at 127.0.0.1, port 8321" in caplog.text
        assert ServerAdvert.read(tmp_path) == first
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_server_left_is_forgotten(tmp_path: Path, caplog):
    gone = replace(advert(), pid=2**22 + 1, port=8322)  # above what a system gives
    for left in (gone, replace(advert(), pid=os.getpid())):
        (tmp_path / FILE_NAME).write_text(json.dumps(asdict(left)))
        with advertised(tmp_path, advert()):
            pass
        assert list(tmp_path.iterdir()) == []
    assert caplog.text == ""


def test_only_loopback_is_advertised(tmp_path: Path):
    assert ServerAdvert.of(CONFIG, "192.0.2.1", 1) is None
    assert advert("0.0.0.0").host == "127.0.0.1"
    assert advert("::").host == "::1"
    with advertised(tmp_path, None):
        assert list(tmp_path.iterdir()) == []


def test_a_directory_that_can_not_be_written_costs_nothing(tmp_path: Path):
    with advertised(tmp_path / "none", advert()):
        pass


def test_what_can_not_be_written_leaves_nothing_behind(tmp_path: Path):
    (tmp_path / "server.json").mkdir()
    with advertised(tmp_path, advert()):
        assert [path.name for path in tmp_path.iterdir()] == ["server.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"host": "192.0.2.1"},
        {"host": "example.org"},
        {"host": 2130706433},
        {"port": "80"},
        {"port": 70_000},
        {"instance": ""},
        {"settings": []},
        {"more": 1},
    ],
)
def test_a_file_of_no_use_is_none(tmp_path: Path, change: dict[str, object]):
    own = advert()
    with advertised(tmp_path, own):
        whole = json.loads((tmp_path / FILE_NAME).read_text())
        (tmp_path / FILE_NAME).write_text(json.dumps({**whole, **change}))
        assert ServerAdvert.read(tmp_path) is None
    (tmp_path / FILE_NAME).write_bytes(b"\xff{")
    assert ServerAdvert.read(tmp_path) is None
    (tmp_path / FILE_NAME).write_text("[" * 50_000)
    assert ServerAdvert.read(tmp_path) is None
    assert ServerAdvert.read(tmp_path / "none") is None


def test_a_process_that_is_gone_is_not_alive():
    child = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(child, 0)
    assert not replace(advert(), pid=child).is_alive
    assert not replace(advert(), pid=0).is_alive
