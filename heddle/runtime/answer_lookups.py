"""Lookups of kept answers: what is found, whether it still holds, and what is kept. (ADR 44)

An answer holds while the searches that it rests on find the same passages. Where the corpus has not
changed since, they would; else they are run again, and compared. An answer to a similar question
holds only where a search for the new question finds the same passages, too.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError, StorageError
from heddle.core.results import Vectors
from heddle.graph.primitive import LookupConfig
from heddle.lowering.answer_cache import check_key, lower_checks
from heddle.runtime.answer_cache import DropReason
from heddle.runtime.answer_keeping import AnswerKeeping
from heddle.runtime.events import Retrieved, TokenDelta
from heddle.runtime.kept_answer import KeptAnswer, LookupDraft
from heddle.runtime.readiness import Readiness
from heddle.runtime.receipt import AnswerLookup, LookupOutcome
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.values import as_passages, as_text
from heddle.workflow.template import QUESTION


@dataclass(slots=True)
class AnswerLookups:
    """Carries lookups out, and the checks of what they have found.

    Args:
        readiness: opens the searches that are run again, and takes the values.
        keeping: the answers.

    Mutates: the requests' drafts, stores and receipts; drops answers that no longer hold.
    """

    readiness: Readiness
    keeping: AnswerKeeping

    def go_on(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Look for an answer, or judge the one whose searches have run again."""
        draft = request.lookup
        if draft is not None and draft.candidate is not None:
            self._judge(request, run, draft, draft.candidate, now_s)
            return
        config = run.primitive.config
        assert isinstance(config, LookupConfig), f"{run.primitive.name!r} looks nothing up"
        scope = _scope(request)
        if config.unfit or scope is None:
            reason = config.unfit or "an input's value can't be compared with another request's"
            self._go_without(request, run, LookupOutcome.UNUSED, now_s, reason)
            return
        try:
            revision = self.keeping.follow()
        except (ConfigError, StorageError) as error:
            self._go_without(request, run, LookupOutcome.UNUSED, now_s, str(error))
            return
        question = as_text(request.store.get(config.question))
        draft = LookupDraft(
            run.primitive.node,
            run.primitive.writes[0],
            scope,
            question,
            _vector(request, config),
            revision,
        )
        request.lookup = draft
        kept = self._find(draft, config, now_s)
        if kept is None:
            self._go_without(request, run, LookupOutcome.MISS, now_s)
        elif kept.question == question and revision is not None and kept.revision == revision:
            self._take(request, run, kept, now_s, is_checked=False)
        else:
            draft.candidate = kept
            self._check(request, run, draft, kept, now_s)

    def _find(self, draft: LookupDraft, config: LookupConfig, now_s: float) -> KeptAnswer | None:
        """Return the answer to an equal question, else to a similar one."""
        cache = self.keeping.cache
        kept = cache.equal(draft.scope, draft.question, now_s)
        if kept is not None or draft.vector is None or config.similarity is None:
            return kept
        near = cache.similar(draft.scope, draft.question, draft.vector, config.similarity, now_s)
        if near is None:
            return None
        kept, draft.similarity = near
        # Else no search could tell whether the new question finds the same passages.
        return kept if any(search.is_question for search in kept.searches) else None

    def _check(
        self,
        request: Request,
        run: PrimitiveRun,
        draft: LookupDraft,
        kept: KeptAnswer,
        now_s: float,
    ) -> None:
        """Run an answer's searches again, with the new question in the place of another one."""
        lookup, store = run.primitive, request.store
        for number, search in enumerate(kept.searches):
            queries, words = search.queries, search.words
            if search.is_question and draft.vector is not None and kept.question != draft.question:
                queries, words = draft.vector[None], (draft.question,)
            store.put(check_key(lookup, "vectors", number), Vectors(queries))
            if search.config.words:
                store.put(check_key(lookup, "words", number), words)
        checks = lower_checks(lookup, [search.config for search in kept.searches], run.plan.depth)
        self.readiness.open_checks(request, run, checks, now_s)

    def _judge(
        self,
        request: Request,
        run: PrimitiveRun,
        draft: LookupDraft,
        kept: KeptAnswer,
        now_s: float,
    ) -> None:
        """Take an answer whose searches find what they found; else run the workflow."""
        is_equal = kept.question == draft.question
        found = (
            as_passages(request.store.get(check_key(run.primitive, "hits", number)))
            for number in range(len(kept.searches))
        )
        pairs = zip(kept.searches, found, strict=True)
        if all(search.found_again(passages, in_order=is_equal) for search, passages in pairs):
            if is_equal:
                kept.revision = draft.revision
            self._take(request, run, kept, now_s, is_checked=True)
            return
        draft.candidate, outcome = None, LookupOutcome.OTHER_PASSAGES
        if is_equal:
            outcome = LookupOutcome.CHANGED
            if not request.receipt.degradations:  # a search that ran degraded proves nothing
                self.keeping.cache.drop(kept, DropReason.CHANGED)
        self._go_without(request, run, outcome, now_s)

    def _take(
        self,
        request: Request,
        run: PrimitiveRun,
        kept: KeptAnswer,
        now_s: float,
        *,
        is_checked: bool,
    ) -> None:
        """Let a request end with a kept answer."""
        draft = request.lookup
        assert draft is not None, "an answer is taken without a lookup"
        is_equal = kept.question == draft.question
        request.kept = kept
        request.receipt.answer_lookup = AnswerLookup(
            LookupOutcome.EQUAL if is_equal else LookupOutcome.SIMILAR,
            similarity=1.0 if is_equal else draft.similarity,
            question=kept.question,
            age_s=now_s - kept.kept_s,
            is_checked=is_checked,
        )
        if not is_checked:  # else the searches have said so
            request.sink(Retrieved(run.primitive.node, kept.passages))
        if kept.node:
            request.sink(TokenDelta(kept.node, kept.text))
        self.readiness.complete(request, run, True, now_s)

    def _go_without(
        self,
        request: Request,
        run: PrimitiveRun,
        outcome: LookupOutcome,
        now_s: float,
        reason: str = "",
    ) -> None:
        request.receipt.answer_lookup = AnswerLookup(outcome, reason=reason)
        self.readiness.complete(request, run, False, now_s)


def _scope(request: Request) -> Hashable | None:
    """Return what an answer depends on beside its question and the corpus; None = can't be said."""
    others = tuple(
        (slot, type(value), value)
        for slot, value in sorted(request.inputs.items())
        if slot != QUESTION
    )
    scope = (
        request.tenant,
        request.where,
        request.optimizations,
        request.kv_reuse,
        request.workflow.content,
        others,
    )
    try:
        hash(scope)
    except TypeError:
        return None
    return scope


def _vector(request: Request, config: LookupConfig) -> NDArray[np.float32] | None:
    if config.vectors is None:
        return None
    vectors = request.store.get(config.vectors)
    assert isinstance(vectors, Vectors), f"{config.vectors!r} holds no vectors"
    found: NDArray[np.float32] = vectors.values[0]
    return found
