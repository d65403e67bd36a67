"""The body of a ranking: what clients of Cohere send, and what can't be done."""

import json

import pytest
from pydantic import ValidationError

from heddle.core.errors import InputError
from heddle.server.bodies.problems import problem_of
from heddle.server.rerank_request import REFUSED, RerankRequest


def read(**fields: object) -> RerankRequest:
    body = {"query": "Who?", "documents": ["Ada", "Bob"], **fields}
    try:
        return RerankRequest.model_validate_json(json.dumps(body))
    except ValidationError as error:
        raise problem_of(error, RerankRequest) from error


@pytest.mark.parametrize("tokens", [None, 4096, 32_000])
def test_coheres_default_and_more_ask_for_nothing(tokens: int | None):
    asked = read(max_tokens_per_doc=tokens)
    assert asked.texts == ["Ada", "Bob"]
    assert not asked.unknown_fields(), "a known field is not logged as ignored"


@pytest.mark.parametrize("tokens", [-1, 0, 16, 4095])
def test_fewer_tokens_of_a_document_are_refused(tokens: int):
    with pytest.raises(InputError, match=r"^max_tokens_per_doc: .* give 4096 or more") as refused:
        read(max_tokens_per_doc=tokens)
    assert refused.value.param == "max_tokens_per_doc"
    assert refused.value.code == "unsupported_parameter"


@pytest.mark.parametrize("tokens", [True, "4096", 4096.5])
def test_what_is_no_number_of_tokens_is_refused_by_name(tokens: object):
    with pytest.raises(InputError, match=r"^max_tokens_per_doc: "):
        read(max_tokens_per_doc=tokens)


@pytest.mark.parametrize("name", REFUSED)
def test_other_ways_to_cut_a_document_are_refused_by_name(name: str):
    with pytest.raises(InputError, match=f"^{name}: .*leave it out"):
        read(**{name: 4096})
    assert read(**{name: None}).texts == ["Ada", "Bob"]
