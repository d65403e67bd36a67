"""The calls that adapters make: of the place where they are made, and in its run's receipt."""

import logging
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from heddle.adapters.engine import Engine
from heddle.adapters.run import CallRecord, Place, current_place, waited_s
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
from heddle.core.errors import InputError
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import no_passage_words

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": (PrimitiveKind.PREFILLING.value, PrimitiveKind.DECODING.value),
    "search": (PrimitiveKind.EMBEDDING.value, PrimitiveKind.SEARCHING.value),
    "embed": (PrimitiveKind.EMBEDDING.value,),
    "rerank": (PrimitiveKind.RERANKING.value,),
}
"""The primitives that each kind of call is."""

FILTERS_TOLD: Final = 1000  # kinds of filters that the log names once each
log = logging.getLogger(__name__)


def chat(
    engine: Engine, call: ChatCall, place: Place | None = None
) -> Generator[str | ChatReply, None, None]:
    """Yield the pieces of an answer, and the whole reply at the end; see `Engine`.

    `place` is where the call is made; None = the current one, as in all functions here.
    """
    with _recorded("chat", place) as course:
        for item in engine.chat(call, course.by):
            if isinstance(item, ChatReply):
                course.take_reply(item)
            yield item


async def achat(
    engine: Engine, call: ChatCall, place: Place | None = None
) -> AsyncGenerator[str | ChatReply, None]:
    """Yield the pieces of an answer, and the whole reply at the end; see `Engine`."""
    with _recorded("chat", place) as course:
        async for item in engine.achat(call, course.by):
            if isinstance(item, ChatReply):
                course.take_reply(item)
            yield item


def search(engine: Engine, call: SearchCall, place: Place | None = None) -> Found:
    """Find passages; see `Engine`. Where a filter fits none, frameworks want none, and no error."""
    with _recorded("search", place) as course:
        try:
            found = engine.search(call, course.by)
        except InputError as error:
            found = _nothing(call, error)
        course.take(found.receipt)
        return found


async def asearch(engine: Engine, call: SearchCall, place: Place | None = None) -> Found:
    """Find passages, as `search` does."""
    with _recorded("search", place) as course:
        try:
            found = await engine.asearch(call, course.by)
        except InputError as error:
            found = _nothing(call, error)
        course.take(found.receipt)
        return found


def embed(engine: Engine, call: EmbedCall, place: Place | None = None) -> Embedded:
    """Embed texts; see `Engine`."""
    with _recorded("embed", place) as course:
        return engine.embed(call, course.by)


async def aembed(engine: Engine, call: EmbedCall, place: Place | None = None) -> Embedded:
    """Embed texts; see `Engine`."""
    with _recorded("embed", place) as course:
        return await engine.aembed(call, course.by)


def rerank(engine: Engine, call: RerankCall, place: Place | None = None) -> Ranked:
    """Rank texts; see `Engine`."""
    with _recorded("rerank", place) as course:
        ranked = engine.rerank(call, course.by)
        course.take(ranked.receipt)
        return ranked


async def arerank(engine: Engine, call: RerankCall, place: Place | None = None) -> Ranked:
    """Rank texts; see `Engine`."""
    with _recorded("rerank", place) as course:
        ranked = await engine.arerank(call, course.by)
        course.take(ranked.receipt)
        return ranked


def _nothing(call: SearchCall, error: InputError) -> Found:
    """Return that nothing was found, if that is what the error says.

    Raises:
        InputError: it says something else.
    """
    if not no_passage_words(error):
        raise error
    _tell(tuple(sorted(call.where or ())))
    return Found(())


@lru_cache(FILTERS_TOLD)
def _tell(keys: tuple[str, ...]) -> None:
    """Log once that a filter by these keys has found nothing: an answer may rest on no passage."""
    log.warning(
        "a filter by %s fits no passage, so searches with it find nothing; filters compare the "
        "metadata that documents were indexed with, and not where passages stand (file, title, "
        "page and the like)",
        ", ".join(map(repr, keys)),
    )


@dataclass(slots=True)
class _Course:
    """A call under way: whose it is, and what its record will say."""

    by: CallIdentity | None
    waited_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0

    def take(self, receipt: Mapping[str, Any]) -> None:
        self.waited_s = waited_s(receipt)

    def take_reply(self, reply: ChatReply) -> None:
        self.take(reply.receipt)
        self.prompt_tokens, self.cached_tokens = reply.prompt_tokens, reply.cached_tokens
        self.tokens = reply.completion_tokens


@contextmanager
def _recorded(kind: str, place: Place | None) -> Iterator[_Course]:
    """Give a call its identity, and its run's receipt its record."""
    place = place or current_place()
    if place is None:
        yield _Course(None)
        return
    course, begun_s, problem = _Course(place.identity), place.run.age_s, ""
    try:
        yield course
    except BaseException as error:
        problem = type(error).__name__
        raise
    finally:
        record = CallRecord(
            node=place.node,
            kind=kind,
            begun_s=begun_s,
            seconds=place.run.age_s - begun_s,
            waited_s=course.waited_s,
            prompt_tokens=course.prompt_tokens,
            cached_tokens=course.cached_tokens,
            tokens=course.tokens,
            error=problem,
        )
        place.run.add_call(record, KINDS[kind])
