"""What the key of a request decides within the application: its tenant, and who pays for tokens."""

import math
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final

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


def charge(scope: MutableMapping[str, Any], tokens: int) -> None:
    """Charge a request's key for tokens; a number below 0 gives some back."""
    held: HeldKey | None = scope.get(HELD)
    if held is not None:
        held.tokens.take(tokens)


class TokenMeter:
    """Charges a request's key as its events come.

    A streamed text is charged when it is sent, at an estimate of its tokens, so that a client that
    leaves has paid for it. The receipt, with the answer, says the true sum.

    Args:
        scope: the request's.
    """

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self._scope = scope
        self._charged = 0

    def take(self, event: RequestEvent) -> None:
        """Charge for an event."""
        if isinstance(event, TokenDelta):
            self._charge(math.ceil(len(event.text) / CHARS_A_TOKEN))
        elif isinstance(event, Answer):
            receipt = event.receipt
            total = receipt.prompt_tokens + receipt.generated_tokens + receipt.tokens_read
            self._charge(total - self._charged)

    def _charge(self, tokens: int) -> None:
        charge(self._scope, tokens)
        self._charged += tokens
