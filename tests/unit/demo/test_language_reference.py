"""The language reference: real text, cleaned, each paragraph once."""

from collections import Counter

from heddle.demo.language_reference import LANGUAGE_QUESTIONS, language_reference_documents


def test_the_topics_of_this_python_are_there_as_plain_text() -> None:
    documents = {document.id: document for document in language_reference_documents()}
    assert len(documents) > 50
    assert "with" in documents["python-with"].title
    assert "context manager" in documents["python-with"].text
    lines = [line for document in documents.values() for line in document.text.splitlines()]
    assert not [line for line in lines if line and not line.strip("*=")]
    assert all(document.title and document.text for document in documents.values())


def test_markup_goes_and_code_keeps_its_operators() -> None:
    documents = {document.id: document for document in language_reference_documents()}
    text = "\n".join(document.text for document in documents.values())
    assert '"AttributeError"' not in text
    assert "**kwargs" in text


def test_no_paragraph_is_kept_in_two_topics() -> None:
    counts = Counter(
        text for document in language_reference_documents() for text in set(document.paragraphs)
    )
    assert counts.most_common(1)[0][1] == 1


def test_there_are_five_questions() -> None:
    assert len(set(LANGUAGE_QUESTIONS)) == 5
    assert all(question.endswith("?") for question in LANGUAGE_QUESTIONS)
