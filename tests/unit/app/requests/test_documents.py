"""Documents that come with a request: what is taken, what is refused, and how they are cut."""

import pytest

from heddle.app.requests.documents import (
    DOCUMENTS_BYTES_MAX,
    DOCUMENTS_MAX,
    checked_documents,
    documents_input,
)
from heddle.core.errors import InputError
from heddle.core.passages import OWN_CHUNK_MIN
from heddle.corpus.chunking import Chunking
from heddle.workflow.ready_made import ready_made


def test_texts_and_mappings_are_documents():
    found = checked_documents(["One.", {"text": "Two.", "title": " The\nsecond "}])
    assert [(d.id, d.title, d.text) for d in found] == [
        ("documents[0]", "document 1", "One."),
        ("documents[1]", "The second", "Two."),
    ]
    assert checked_documents(None) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a text", "documents must be a list of documents, got str"),
        ({"text": "x"}, "documents must be a list of documents, got dict"),
        (["a", 3], r"documents\[1\] must be a text, or have the field text"),
        ([{"title": "x"}], r"documents\[0\] must be a text, or have the field text"),
        ([{"text": "x", "id": "y"}], r"documents\[0\] must be a text, or have the field text"),
        ([{"text": 3}], r"documents\[0\]: text must be a string, got int"),
        (["a", " \n"], r"documents\[1\]: text is empty: leave the document out"),
        (["\udc80"], r"documents\[0\]: text is not valid Unicode"),
        (["a"] * (DOCUMENTS_MAX + 1), "documents: 65 are more than 64"),
        (
            ["a" * DOCUMENTS_BYTES_MAX, "b"],
            "documents: they hold 1,048,597 bytes of text, more than",
        ),
    ],
)
def test_what_cannot_be_used_is_named(given: object, message: str):
    with pytest.raises(InputError, match=message):
        checked_documents(given)


def test_chunks_get_ids_that_no_corpus_has():
    documents = checked_documents(["# Tides\nThey turn.\n\n# Mills\nThey grind.", "They stand."])
    workflow = ready_made("doc_qa_naive").compile()
    chunks = documents_input(workflow, documents, lambda: Chunking(3))["documents"]
    assert [c.chunk_id for c in chunks] == [OWN_CHUNK_MIN + row for row in range(len(chunks))]
    assert [c.title for c in chunks] == ["document 1 > Tides", "document 1 > Mills", "document 2"]
    assert all(c.is_own for c in chunks)
    assert chunks[0].place.heading == ("Tides",)


def test_documents_and_workflow_have_to_fit():
    documents = checked_documents(["They turn."])
    with pytest.raises(InputError, match="documents: workflow 'oneshot' reads the corpus"):
        documents_input(ready_made("oneshot").compile(), documents, Chunking)
    with pytest.raises(InputError, match="documents: workflow 'doc_qa_naive' answers from"):
        documents_input(ready_made("doc_qa_naive").compile(), (), Chunking)
    assert documents_input(ready_made("oneshot").compile(), (), Chunking) == {}
