"""GET /v1/vector_stores/ID/files/FILE/content, on a store that is filled by hand."""

from pathlib import Path
from types import SimpleNamespace

from fastapi.testclient import TestClient

from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_stores.document_names import document_id
from heddle.server.http import create_app
from tests.unit.corpus.corpora import STAMP, embed, put

NOW_S = 1_700_000_000


def test_the_text_of_a_file_comes_once_it_is_completed(tmp_path: Path):
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        store.set_embedder(STAMP)
        file = store.uploads.add("", "mill.md", "assistants", b"# Mill", now_s=NOW_S).id
        shelf = store.vector_stores.add("", "notes", {}, now_s=NOW_S).id
        store.attached_files.attach("", shelf, {file: {}}, now_s=NOW_S)
        app = create_app(SimpleNamespace(store=store), {})
        with TestClient(app, base_url="http://localhost") as client:
            at = f"/v1/vector_stores/{shelf}/files/{file}/content"
            early = client.get(at)
            assert early.status_code == 400
            assert "is in_progress: only a completed file has its text" in early.text
            put(store, document_id(shelf, file, 0), "The mill grinds rye.", "It stands at Vik.")
            embed(store)
            begun = store.file_queue.begin()
            assert begun is not None
            assert store.file_queue.complete(begun, 1, 10)
            texts = ("The mill grinds rye.", "It stands at Vik.")
            assert client.get(at).json() == {
                "object": "vector_store.file_content.page",
                "data": [{"type": "text", "text": text} for text in texts],
                "has_more": False,
                "next_page": None,
            }
            assert client.get(at, params={"tenant": "ann"}).status_code == 404
            assert client.get(at.replace(file, "file-none")).status_code == 404
