"""What a parser finds in a body is said with its fix."""

import pytest
from pydantic import BaseModel, Field, ValidationError

from heddle.server.ask_request import AskRequest
from heddle.server.bodies.problems import problem_of
from heddle.server.document_request import DocumentRequest


class Asked(BaseModel):
    question: str


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (rb"a\ud800", "send whole ones"),
        (rb"a\ud800b", "send whole ones"),
        (rb"\udc00", "send whole ones"),
        (b"a\xff", "send it as UTF-8"),
        (b"\xed\xa0\x80", "send it as UTF-8"),
    ],
)
def test_a_text_that_is_no_text(text, fix):
    with pytest.raises(ValidationError) as failed:
        Asked.model_validate_json(b'{"question":"' + text + b'"}')
    words = str(problem_of(failed.value, Asked))
    assert words.startswith("body: ")
    assert words.endswith(fix)
    assert "line 1 column" in words


def test_other_faults_of_the_json_stay_as_they_are():
    with pytest.raises(ValidationError) as failed:
        Asked.model_validate_json(b'{"question":')
    assert str(problem_of(failed.value, Asked)).startswith("body: EOF while parsing")


class Chatted(BaseModel):
    turns: list[str] = Field(min_length=1)


def test_an_empty_list_is_told_in_plain_words():
    with pytest.raises(ValidationError) as error:
        Chatted(turns=[])
    problem = problem_of(error.value, Chatted)
    assert (str(problem), problem.param) == ("turns: is empty", "turns")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{}", "id: is missing; text: is missing"),
        ("[]", "body: must be an object"),
        ('{"id": "", "text": "a"}', "id: is empty"),
        ('{"id": 7, "text": null}', "id: must be a text; text: must be a text"),
        ('{"id": "a", "text": "b", "metadata": [1]}', "metadata: must be an object"),
        (
            '{"id": "a", "text": "b", "tenant": "%s"}' % ("x" * 257),
            "tenant: must have at most 256 characters",
        ),
    ],
)
def test_a_wrong_document_is_told_in_plain_words(body, words):
    with pytest.raises(ValidationError) as error:
        DocumentRequest.model_validate_json(body)
    assert str(problem_of(error.value, DocumentRequest)) == words


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (
            '"constraint": {"choices": ["a"]}',
            "constraint.choices: there is no such field; did you mean 'choice'?",
        ),
        (
            '"documents": [{"titel": "a", "text": "b"}]',
            "documents.0.titel: there is no such field; did you mean 'title'?",
        ),
        ('"stream": 1', "stream: must be true or false"),
        ('"topk": "3"', "topk: must be a whole number"),
        ('"topk": 2.5', "topk: must be a whole number"),
        ('"topk": 0', "topk: must be at least 1"),
        ('"top_p": 2', "top_p: must be at most 1"),
        ('"deadline_s": 0', "deadline_s: must be above 0"),
        ('"deadline_s": "soon"', "deadline_s: must be a number"),
        ('"documents": {}', "documents: must be a list"),
        ('"priority": "urgent"', "priority: must be 'interactive', 'normal' or 'bulk'"),
    ],
)
def test_a_wrong_option_is_told_in_plain_words(field, words):
    with pytest.raises(ValidationError) as error:
        AskRequest.model_validate_json(f'{{"question": "Who?", {field}}}')
    assert str(problem_of(error.value, AskRequest)) == words
