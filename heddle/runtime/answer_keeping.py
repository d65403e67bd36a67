"""Which answers are kept, with all that they rest on; and what a changed corpus makes of them.

An answer rests on the searches of its request. They are kept with it, so that they can run again.
(ADR 44)
"""

import logging
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError, StorageError
from heddle.core.payloads import EmbedPayload, SearchPayload
from heddle.graph.primitive import DecodeConfig, EmbedConfig, RoundsConfig, SearchConfig
from heddle.runtime.answer_cache import AnswerCache
from heddle.runtime.events import Answer
from heddle.runtime.kept_answer import KeptAnswer, KeptSearch
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.values import as_passages

log = logging.getLogger(__name__)
SEARCHES_MAX: Final = 16  # more would cost about what an answer costs


class ChangeLog(Protocol):
    """What a corpus says of its changes (heddle.corpus.store.CorpusStore)."""

    @property
    def revision(self) -> int:
        """Grows with every committed change."""
        ...

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the ids of chunks deleted after a revision. Shape: [n] int64."""
        ...


@dataclass(slots=True)
class AnswerKeeping:
    """Keeps answers, and follows the corpus that they rest on.

    Args:
        cache: the answers.
        changes: the corpus's log; None = it isn't known, or other engines search: every answer is
            checked before it is taken.

    Mutates: the cache; the requests' drafts.
    """

    cache: AnswerCache = field(default_factory=AnswerCache)
    changes: ChangeLog | None = None
    _followed: int | None = None

    def follow(self) -> int | None:
        """Forget the answers that rest on deleted chunks; return the corpus's revision.

        A changed document's chunks are deleted, and new ones come for them.

        Raises:
            StorageError: the corpus can't be read.
            ConfigError: its database lets this user no longer read it.
        """
        if self.changes is None:
            return None
        revision = self.changes.revision
        before = self._followed
        if before is not None and before != revision and not self.cache.is_empty:
            self.cache.forget_chunks(self.changes.deleted(before).tolist())
        self._followed = revision
        return revision

    def keep(self, request: Request, answer: Answer, now_s: float) -> None:
        """Keep a request's answer where it is fit to be given again.

        One that ran degraded isn't, nor is one that rests on no search that could be run again, or
        on a chunk that has been deleted since.
        """
        draft, last = request.lookup, request.last
        if draft is None or request.kept is not None or answer.receipt.degradations:
            return
        if not answer.text or not 1 <= len(draft.searches) <= SEARCHES_MAX:
            return
        is_written = last is not None and isinstance(last.config, DecodeConfig | RoundsConfig)
        others = {*request.inputs, *(slot for slot, key in request.scope.keys if key == draft.key)}
        kept = KeptAnswer(
            scope=draft.scope,
            question=draft.question,
            vector=draft.vector,
            node=last.node if last is not None and is_written else "",
            text=answer.text,
            passages=answer.passages,
            quotes=answer.quotes,
            nearest=answer.nearest,
            finish_reason=answer.finish_reason,
            slots={slot: value for slot, value in answer.slots.items() if slot not in others},
            searches=tuple(draft.searches),
            revision=draft.revision,
            kept_s=now_s,
        )
        try:
            is_gone = self._is_gone(kept)
        except (ConfigError, StorageError) as error:
            log.warning("an answer was not kept: %s", error)
            return
        if not is_gone:
            self.cache.put(kept, now_s)

    def _is_gone(self, kept: KeptAnswer) -> bool:
        """Whether a chunk that an answer rests on was deleted while it was made."""
        if self.changes is None or kept.revision is None or self.follow() == kept.revision:
            return False
        return not kept.chunk_ids.isdisjoint(self.changes.deleted(kept.revision).tolist())


def note_rows(request: Request, run: PrimitiveRun, value: object) -> None:
    """Note what a request that may be kept has embedded, and what its searches have found.

    Mutates: the draft of the request's lookup.
    """
    draft, primitive, payload = request.lookup, run.primitive, run.payload
    if draft is None or primitive.node == draft.node:
        return
    if isinstance(primitive.config, EmbedConfig) and isinstance(payload, EmbedPayload):
        draft.texts[primitive.writes[0]] = payload.texts
    elif isinstance(primitive.config, SearchConfig) and isinstance(payload, SearchPayload):
        is_question = draft.texts.get(primitive.config.vectors) == (draft.question.strip(),)
        draft.searches.append(
            KeptSearch(
                primitive.config,
                payload.queries,
                payload.words or (),
                is_question,
                as_passages(value),
            )
        )
