"""An engine as adapters see it: a server of this process, or a running one by its address."""

from collections.abc import AsyncIterator, Iterator
from typing import Protocol, runtime_checkable

from heddle.adapters.values import (
    ChatCall,
    ChatReply,
    EmbedCall,
    Embedded,
    Found,
    Ranked,
    RerankCall,
    SearchCall,
)
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.errors import ConfigError


@runtime_checkable
class Engine(Protocol):
    """What adapters call.

    `by` names the run that calls; None = no run. A chat yields pieces of its text as they come
    and its ChatReply at the end. Closing a chat early, or cancelling the task that awaits a call,
    ends its request in the engine.

    Two of the same server, key and tenant are equal.

    Raises (of all calls):
        InputError, ConfigError: it can't be done as it is.
        Busy: too much is under way.
        DeadlineExceeded: its time ran out.
        HeddleError: it failed.
    """

    @property
    def name(self) -> str:
        """What names the engine in messages."""
        ...

    def chat(self, call: ChatCall, by: CallIdentity | None = None) -> Iterator[str | ChatReply]:
        """Have the LLM go on with a conversation."""
        ...

    def achat(
        self, call: ChatCall, by: CallIdentity | None = None
    ) -> AsyncIterator[str | ChatReply]:
        """Have the LLM go on with a conversation."""
        ...

    def search(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        """Find passages."""
        ...

    async def asearch(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        """Find passages."""
        ...

    def embed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        """Embed texts."""
        ...

    async def aembed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        """Embed texts."""
        ...

    def rerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        """Rank texts."""
        ...

    async def arerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        """Rank texts."""
        ...

    def cancel_run(self, run: str) -> None:
        """Ask for the end of what is under way for a run, and return at once."""
        ...


def engine_of(source: object, *, api_key: str = "", tenant: str = "") -> Engine:
    """Return the engine that a caller has named.

    Args:
        source: a `heddle.Server`, the address of a running one, or an Engine.
        api_key: the key for a server by its address; "" = none.
        tenant: whose documents and caches are used; an Engine has its own.

    Raises:
        ConfigError: it is none of these, or no address.
    """
    if isinstance(source, Engine):
        return source
    if isinstance(source, str):
        from heddle.adapters.by_url import ByUrl

        return ByUrl(source, api_key=api_key, tenant=tenant)
    from heddle.app.server import Server

    if isinstance(source, Server):
        from heddle.adapters.in_process import InProcess

        return InProcess(source, tenant=tenant)
    raise ConfigError(
        f"engine must be a heddle.Server or the address of a running one, such as "
        f"'http://127.0.0.1:8321', got {source!r:.60}"
    )
