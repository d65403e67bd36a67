"""A call whose answer is one JSON object."""

import json
from typing import Any

from heddle.engines.remote.endpoint import Endpoint
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import no_json, problem_of


async def json_call(server: Endpoint[Any], call: str, body: object, seconds: float) -> Any:  # noqa: ANN401
    """Return a server's answer to a POST: any JSON value.

    Args:
        server: who is asked.
        call: such as /embeddings.
        body: of the request.
        seconds: until the answer must be there.

    Raises:
        RemoteProblem: there is no answer, or one that is no JSON.
    """
    response = await server.client.fetch("POST", call, body, seconds=seconds)
    if response.status != 200:
        raise problem_of(response, call, server.client.key)
    if "html" in response.headers.get("content-type", "").lower():
        words = "answers with a web page: it is no API of models, or its path is another"
        raise RemoteProblem(Trouble.NO_API, words)
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        raise no_json("an answer that is no JSON") from None


def tokens_of(answer: object) -> int:
    """Return the tokens that an answer says it took; 0 = it doesn't say."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    count = usage.get("prompt_tokens", usage.get("total_tokens")) if isinstance(usage, dict) else 0
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0
