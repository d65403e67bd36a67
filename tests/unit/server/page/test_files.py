"""The page's files: as they are sent, and whether they are those of the sources."""

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from heddle.server.http import create_app
from heddle.server.keys.key_gate import PAGE
from heddle.server.page.files import PATHS
from tests.helpers.page_sources import SITE, WEB, sources_hash

BYTES_MAX = 300_000


@pytest.fixture
def client() -> TestClient:
    return TestClient(create_app(SimpleNamespace(), {}), base_url="http://localhost")


def built(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_the_site_is_built_of_the_sources():
    kept = (SITE / "sources.sha256").read_text().strip()
    assert kept == sources_hash(), "run: npm ci && npm run build, in web/"


def test_a_changed_source_would_be_seen(tmp_path: Path):
    copy = shutil.copytree(WEB, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    assert sources_hash(copy) == sources_hash()
    (copy / "src" / "main.ts").write_text("// nothing", encoding="utf-8")
    assert sources_hash(copy) != sources_hash()


@pytest.mark.slow
def test_building_it_again_gives_the_same_files(tmp_path: Path):
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the page's packages aren't installed: they need Node, and `npm ci` in web/")
    command = ["npm", "run", "build", "--", "--outDir", str(tmp_path / "site")]
    run = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert built(tmp_path / "site") == built(SITE)


def test_the_lock_file_names_no_registry():
    assert "resolved" not in (WEB / "package-lock.json").read_text()


def test_it_is_small_and_names_no_other_server():
    files = built(SITE)
    assert set(files) == {name for name, _ in PATHS.values()} | {"sources.sha256"}
    assert sum(map(len, files.values())) <= BYTES_MAX
    namespaces = {b"http://www.w3.org/2000/svg"}
    found = {url for body in files.values() for url in re.findall(rb"https?://[^\s\"'`<>)]+", body)}
    assert found <= namespaces


def test_its_paths_are_those_that_need_no_key():
    assert set(PATHS) == PAGE


@pytest.mark.parametrize("path", PATHS)
def test_a_file_is_sent_once_and_may_do_nothing_inline(client: TestClient, path: str):
    reply = client.get(path)
    assert reply.status_code == 200
    policy = dict(
        part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-type"] == PATHS[path][1]
    again = client.get(path, headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(path, headers={"If-None-Match": '"old"'}).content == reply.content


def test_no_other_file_is_sent(client: TestClient):
    for path in ("/assets/", "/assets/router.py", "/assets/../files.py", "/index.html", "/site"):
        assert client.get(path).status_code == 404, path
