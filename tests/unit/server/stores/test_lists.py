"""The queries of lists of files and vector stores: what they narrow, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from heddle.corpus.store import CorpusStore
from heddle.server.http import create_app

LIMITS = {"/v1/files": 10_000, "/v1/vector_stores": 100}  # as OpenAI's
PATHS = tuple(LIMITS)
FILES = 3


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        for number in range(FILES):
            store.uploads.add("", f"{number}.md", "assistants", b"# Mill", now_s=number)
            store.vector_stores.add("", f"{number}", {}, now_s=number)
        app = create_app(SimpleNamespace(store=store), {})
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            yield client


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("limit", ["1", "002", "100"])
def test_a_limit_is_kept(client: TestClient, path: str, limit: str):
    found = client.get(path, params={"limit": limit}).json()
    assert len(found["data"]) == min(FILES, int(limit))
    assert found["has_more"] is (int(limit) < FILES)


def test_as_many_are_listed_as_by_openai(client: TestClient, tmp_path: Path):
    with CorpusStore.open(tmp_path / "corpus") as store:
        for number in range(FILES, 25):
            store.uploads.add("", f"{number}.md", "assistants", b"# Mill", now_s=number)
            store.vector_stores.add("", f"{number}", {}, now_s=number)
    for path, limit in LIMITS.items():
        assert len(client.get(path, params={"limit": limit}).json()["data"]) == 25
        assert client.get(path, params={"limit": limit + 1}).status_code == 400
    assert [len(client.get(path).json()["data"]) for path in PATHS] == [25, 20]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "limit",
    [
        "0",
        "10001",
        "-1",
        "",
        "x",
        "\u00b2",
        "000100999999",
        "000001" + "9" * 30,
        "000001" + "9" * 5000,
    ],
    ids=lambda limit: f"{limit:.12} {len(limit)}",
)
def test_a_limit_that_can_not_be_used_is_refused(client: TestClient, path: str, limit: str):
    refused = client.get(path, params={"limit": limit})
    assert refused.status_code == 400
    words = f"limit must be a number from 1 to {LIMITS[path]},"
    assert refused.json()["error"]["message"].startswith(words)
