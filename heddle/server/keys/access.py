"""What the key of a request decides within the application: its tenant, and who pays for tokens."""

import math
from collections.abc import Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel
from starlette.exceptions import HTTPException

from heddle.runtime.events import Answer, RequestEvent, TokenDelta
from heddle.server.keys.key_ring import HeldKey

HELD: Final = "heddle.key"  # in the ASGI scope of a request; absent where the server has no keys
CHARS_A_TOKEN: Final = 4


def own_tenant(scope: MutableMapping[str, Any], named: str) -> str:
    """Return the tenant that a request is for.

    Args:
        scope: the request's.
        named: the tenant that its body or query names; "" = none.

    Raises:
        HTTPException: the key is another tenant's (403).
    """
    held: HeldKey | None = scope.get(HELD)
    if held is None or held.key.tenant is None:
        return named
    if named not in ("", held.key.tenant):
        raise HTTPException(
            HTTPStatus.FORBIDDEN,
            f"tenant: this key is for the tenant {held.key.tenant!r}: name that one, or none",
        )
    return held.key.tenant


class TokenMeter:
    """Charges a request's key from its admission to its answer.

    What a request asks is charged when it is admitted, and a streamed text when it is sent, both at
    an estimate of their tokens, so that a client that leaves has paid for them. The receipt, with
    the answer, says the true sum.

    Args:
        scope: the request's.
    """

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self._held: HeldKey | None = scope.get(HELD)
        self._charged = 0

    def admit(self, asked: BaseModel | str) -> None:
        """Charge for the texts of a request that was admitted: of its whole body, or one text."""
        if self._held is not None:
            texts = asked.model_dump(exclude_unset=True) if isinstance(asked, BaseModel) else asked
            self._charge(_tokens(_chars(texts)))

    def take(self, event: RequestEvent) -> None:
        """Charge for an event."""
        if isinstance(event, TokenDelta):
            self._charge(_tokens(len(event.text)))
        elif isinstance(event, Answer):
            receipt = event.receipt
            self.settle(receipt.prompt_tokens + receipt.generated_tokens + receipt.tokens_read)

    def settle(self, tokens: int) -> None:
        """Charge the true sum of the request's tokens in the place of the estimates."""
        self._charge(tokens - self._charged)

    def _charge(self, tokens: int) -> None:
        if self._held is not None:
            self._held.tokens.take(tokens)
        self._charged += tokens


def _tokens(chars: int) -> int:
    return math.ceil(chars / CHARS_A_TOKEN)


def _chars(value: object) -> int:
    """Return the characters of all texts in a value of JSON, names of fields left out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_chars, value.values()))
    return sum(map(_chars, value)) if isinstance(value, list | tuple) else 0
