"""What a server offers, asked once at the start: its models, and how it is to be asked."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from heddle.engines.remote.dialect import Abilities, Dialect
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import problem_of

PROBE_S_MAX: Final = 10.0
PROBE_BYTES_MAX: Final = 4 << 20
NAMES_SHOWN_MAX: Final = 20
NAME_CHARS_MAX: Final = 100
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that a server lists.

    Args:
        name: by which it is asked for.
        owner: who runs it, in the server's own word.
        context_tokens_max: None = the server doesn't say.
    """

    name: str
    owner: str
    context_tokens_max: int | None


async def offered_models(
    client: HttpClient, seconds: float = PROBE_S_MAX
) -> tuple[OfferedModel, ...] | None:
    """Return the models that a server lists; None where it has no list.

    Raises:
        RemoteProblem: it can't be reached, or is no API of models.
    """
    response = await client.fetch("GET", "/models", seconds=seconds, bytes_max=PROBE_BYTES_MAX)
    if response.status in (404, 405, 501):
        return None
    if response.status != 200:
        raise problem_of(response, "/models", client.key)
    kind = response.headers.get("content-type", "").lower()
    if "html" in kind:
        words = "answers with a web page: it is no API of models, or its path is another"
        raise RemoteProblem(Trouble.NO_API, words)
    try:
        listed = json.loads(response.body)
    except (ValueError, RecursionError):
        raise RemoteProblem(Trouble.NO_API, "has a list of models that is no JSON") from None
    entries = listed.get("data") if isinstance(listed, dict) else listed
    if not isinstance(entries, list):
        raise RemoteProblem(Trouble.NO_API, "has a list of models that can't be read")
    return tuple(model for model in map(_model, entries) if model is not None)


def chosen_model(wanted: str, offered: tuple[OfferedModel, ...] | None) -> OfferedModel:
    """Return the model that a name means; a server's only model needs no name.

    Raises:
        RemoteProblem: there is no such model, or more than one to choose from.
    """
    if offered is None:
        if not wanted:
            words = "has no list of models: name one by adding #NAME to the address"
            raise RemoteProblem(Trouble.NO_MODEL, words)
        return OfferedModel(wanted, "", None)
    if not wanted and len(offered) == 1:
        return offered[0]
    names = {model.name: model for model in offered}
    found = names.get(wanted) or names.get(f"{wanted}:latest")  # Ollama's way to name versions
    if found is not None:
        return found
    known = ", ".join(shown_name(name) for name in list(names)[:NAMES_SHOWN_MAX]) or "none"
    more = f", and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    asked = f"has no model {wanted!r}" if wanted else "has several models: add #NAME"
    if not names:
        asked = "has no model loaded"
    raise RemoteProblem(Trouble.NO_MODEL, f"{asked}; it offers {known}{more}")


def shown_name(name: str) -> str:
    """Return a name of the other side as it may be printed: short, and without control codes."""
    return _UNPRINTABLE.sub("?", name[:NAME_CHARS_MAX])


async def probe_generator(client: HttpClient, wanted: str) -> Abilities:
    """Return what a server can do with the model of a name.

    No text is generated: an empty request finds out whether there is a chat call, because a
    server that has one refuses it for its content and not for its path.

    Raises:
        RemoteProblem: it can't be used; the words lack the server's address.
    """
    offered = await offered_models(client)
    model = chosen_model(wanted, offered)
    abilities = Abilities(
        model.name, owner=model.owner, context_tokens_max=model.context_tokens_max
    )
    for dialect in Dialect:
        abilities.dialect = dialect
        if await _has(client, dialect.value):
            return abilities
    raise RemoteProblem(
        Trouble.NO_API,
        "has neither /chat/completions nor /completions; the address of an API usually ends in /v1",
    )


async def _has(client: HttpClient, call: str) -> bool:
    response = await client.fetch("POST", call, {}, seconds=PROBE_S_MAX, bytes_max=PROBE_BYTES_MAX)
    if response.status in (401, 403) or 300 <= response.status < 400:
        raise problem_of(response, call, client.key)
    if "html" in response.headers.get("content-type", "").lower():
        return False
    if response.status == 404:  # some servers say so of the model that the request doesn't name
        return problem_of(response, call, client.key).trouble is Trouble.NO_MODEL
    return response.status not in (405, 501)


def _model(entry: Any) -> OfferedModel | None:  # noqa: ANN401 - any JSON value
    name = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        return None
    length = entry.get("max_model_len")
    owner = entry.get("owned_by")
    return OfferedModel(
        name,
        owner if isinstance(owner, str) else "",
        length if isinstance(length, int) and length > 0 else None,
    )
