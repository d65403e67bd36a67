"""What a parser finds in a body is said with its fix."""

import pytest
from pydantic import BaseModel, Field, ValidationError

from heddle.server.bodies.problems import problem_of


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
