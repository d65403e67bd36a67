"""Generations that retrieve while they decode: when a round is due, and its added passages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heddle.core.passages import Passage
from heddle.core.ports import Tokenizer
from heddle.graph.primitive import SoFar, SpliceConfig
from heddle.lowering.rounds import round_key, rounds_config
from heddle.runtime.folding import text_value
from heddle.runtime.readiness import Readiness
from heddle.runtime.receipt import Splice
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.values import as_passages, generated, resolve

SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(slots=True)
class Rounds:
    """Carries out what the runtime itself does for such a generation. (ADR 9)

    Args:
        readiness: opens rounds, and takes the values.
        tokenizer: says how many tokens a passage takes.

    Mutates: the requests' stores and receipts.
    """

    readiness: Readiness
    tokenizer: Tokenizer | None

    def go_on(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Open the next round after a pause; after the last, write the whole text.

        `run` stays open between two rounds, so the primitives after the generation wait.
        """
        config, store = rounds_config(run.primitive), request.store
        written = generated(store, round_key(run.primitive, "written", run.round))
        if not written.finish_reason.is_pause:
            request.receipt.generated_tokens += len(written.token_ids)
            value = text_value(written, config.as_lines, run.primitive.node, request.receipt)
            self.readiness.complete(request, run, value, now_s)
            return
        run.round += 1
        for part, text in (
            (SoFar.ANSWER, written.text),
            (SoFar.SENTENCE, last_sentence(written.text)),
        ):
            store.put(round_key(run.primitive, part.value, run.round), text)
        self.readiness.open_round(request, run, now_s)

    def splice(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Add the passages that were found to those that earlier rounds added."""
        config, store, node = run.primitive.config, request.store, run.primitive.node
        assert isinstance(config, SpliceConfig), f"{run.primitive.name!r} adds no passages"
        written = generated(store, config.written)
        earlier = as_passages(store.get(config.added)) if config.added is not None else ()
        own = [p for read in config.shown for p in as_passages(resolve(read, store, node))]
        known = {passage.chunk_id for passage in (*own, *earlier)}
        found = as_passages(store.get(config.hits))
        new = tuple(passage for passage in found if passage.chunk_id not in known)
        # What its prompt may grow by and still leave room for the rest of the answer.
        tokens_max = written.tokens_left - (config.tokens_max - len(written.token_ids))
        tokens_max += self._tokens(earlier)
        kept = self._newest(earlier, new, config.added_max, tokens_max)
        request.receipt.splices[config.prefill] = Splice(
            node=node,
            turn=run.plan.turn,
            reason=written.finish_reason,
            at_token=len(written.token_ids),
            at_s=now_s - request.arrival_s,
            chunks_found=len(found),
            chunks_added=sum(passage in new for passage in kept),
            chunks_dropped=len(earlier) + len(new) - len(kept),
        )
        self.readiness.complete(request, run, kept, now_s)

    def _newest(
        self,
        earlier: tuple[Passage, ...],
        new: tuple[Passage, ...],
        added_max: int,
        tokens_max: int,
    ) -> tuple[Passage, ...]:
        """Drop the oldest passages until the rest fit, then the farthest of the new ones."""
        while len(earlier) + len(new) > added_max or (
            (earlier or new) and self._tokens((*earlier, *new)) > tokens_max
        ):
            if earlier:
                earlier = earlier[1:]
            else:
                new = new[:-1]
        return (*earlier, *new)

    def _tokens(self, passages: Sequence[Passage]) -> int:
        """Return what passages take in a prompt, and a constant for what frames every prompt."""
        assert self.tokenizer is not None, "a generation needs a tokenizer"
        segments = self.tokenizer.encode_prompt(passages)
        return sum(len(segment.token_ids or ()) for segment in segments)


def last_sentence(text: str) -> str:
    """Return the sentence at the end of a text: the one being written, else the one just ended."""
    sentences = [part.strip() for part in SENTENCE_END.split(text)]
    return next((sentence for sentence in reversed(sentences) if sentence), "")
