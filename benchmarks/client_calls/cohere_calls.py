"""cohere: the calls of its page on rankings, by its clients of both versions.

Heddle has no route of Cohere's for embeddings or chats, so none of those are made.
"""

import asyncio
from typing import Any

from benchmarks.client_calls.call import KEY, Client, Servers, raised

CLIENT = Client("cohere", "cohere")
QUERY = "Who keeps the mill at Vik?"
TEXTS = ["The ferry leaves at noon.", "The mill at Vik is kept by Solveig.", "Rye is grown here."]
BEST = 1
ASKED: dict[str, Any] = {"model": "any", "query": QUERY, "documents": TEXTS}


def of(servers: Servers) -> dict[str, str]:
    """Return what a client is made with; its paths begin with the version."""
    return {"api_key": KEY, "base_url": servers.quoting.removesuffix("/v1")}


@CLIENT.call
def rerank(servers: Servers) -> None:
    import cohere

    found = cohere.ClientV2(**of(servers)).rerank(**ASKED)
    assert sorted(one.index for one in found.results) == [0, 1, 2]
    assert found.results[0].index == BEST
    scores = [one.relevance_score for one in found.results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@CLIENT.call
def rerank_the_best(servers: Servers) -> None:
    import cohere

    found = cohere.ClientV2(**of(servers)).rerank(**ASKED, top_n=1)
    assert [one.index for one in found.results] == [BEST]


@CLIENT.call
def rerank_says_what_it_cost(servers: Servers) -> None:
    import cohere

    found = cohere.ClientV2(**of(servers)).rerank(**ASKED)
    assert found.id
    assert found.meta.billed_units.search_units == 1
    assert found.meta.tokens.input_tokens > 0


@CLIENT.call
def rerank_without_blocking(servers: Servers) -> None:
    import cohere

    async def ask() -> Any:
        async with cohere.AsyncClientV2(**of(servers)) as client:
            return await client.rerank(**ASKED, top_n=2)

    assert asyncio.run(ask()).results[0].index == BEST


@CLIENT.call
def rerank_of_the_first_version(servers: Servers) -> None:
    import cohere

    found = cohere.Client(**of(servers)).rerank(**ASKED, return_documents=True)
    assert found.results[0].document.text == TEXTS[BEST]


@CLIENT.call
def rerank_objects(servers: Servers) -> None:
    import cohere

    objects = [{"text": text} for text in TEXTS]
    found = cohere.Client(**of(servers)).rerank(**{**ASKED, "documents": objects})
    assert found.results[0].index == BEST


@CLIENT.call
def a_raw_response_has_the_request_id(servers: Servers) -> None:
    import cohere

    raw = cohere.ClientV2(**of(servers)).with_raw_response.rerank(**ASKED)
    assert raw.headers["x-request-id"]
    assert raw.data.results[0].index == BEST


@CLIENT.call
def no_documents_are_a_bad_request(servers: Servers) -> None:
    import cohere

    client = cohere.ClientV2(**of(servers))
    error = raised(cohere.BadRequestError, lambda: client.rerank(**{**ASKED, "documents": []}))
    assert "documents" in str(error.body)


@CLIENT.call
def a_cut_of_documents_is_refused_by_name(servers: Servers) -> None:
    import cohere

    client = cohere.ClientV2(**of(servers))
    error = raised(cohere.BadRequestError, lambda: client.rerank(**ASKED, max_tokens_per_doc=16))
    assert "max_tokens_per_doc" in str(error.body)
