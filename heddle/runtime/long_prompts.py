"""Prompts that take long to tokenise: made beside the runtime's thread, so no question waits."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from heddle.core.passages import Passage
from heddle.core.ports import WorkPool
from heddle.core.system_text import PromptPart
from heddle.graph.primitive import AskConfig, PrefillConfig, Primitive
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.payload_builder import Built
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.values import prompt_parts

PROMPTED: Final = (PrefillConfig, AskConfig)
LONG_CHARS: Final = 8192  # about 5 ms; handing it over and back takes a fiftieth of that


@dataclass(frozen=True, slots=True)
class LongPrompt:
    """A prompt of a request that is made by a thread, or was."""

    request: Request
    run: PrimitiveRun
    built: Future[Built]


@dataclass(slots=True)
class LongPrompts:
    """The prompts that threads are making.

    Their number is bounded by that of the requests in flight. Which primitives wait for which is
    not changed: one whose prompt is being made waits a little longer for its engine.

    Args:
        threads: make them; None = no prompt is long, all are made where they are needed.

    Mutates: `start` adds a prompt; `finished` and `drop` take them out.
    """

    threads: WorkPool | None
    _open: dict[tuple[int, str], LongPrompt] = field(default_factory=dict)

    def is_long(self, primitive: Primitive, store: ObjectStore) -> bool:
        """Whether a primitive's prompt is long enough for a thread."""
        return self._has_chars(primitive, store, lambda part: True)

    def has_long_text(self, primitive: Primitive, store: ObjectStore) -> bool:
        """Whether a prompt is long without its passages, whose tokens are mostly known."""
        return self._has_chars(primitive, store, lambda part: not isinstance(part, Passage))

    def start(self, request: Request, run: PrimitiveRun, build: Callable[[], Built]) -> None:
        """Have a thread make a primitive's prompt."""
        assert self.threads is not None, "a prompt is long only where threads are"
        key = request.id, run.primitive.name
        assert key not in self._open, f"the prompt of {key} is being made"
        self._open[key] = LongPrompt(request, run, self.threads.submit(build))

    def finished(self) -> Iterable[LongPrompt]:
        """Return and forget the prompts that are made, in the order in which they were begun."""
        made = {key: prompt for key, prompt in self._open.items() if prompt.built.done()}
        for key in made:
            del self._open[key]
        return made.values()

    def drop(self, request_id: int) -> None:
        """Forget a request's prompts; one that no thread has begun is never made."""
        for key in [key for key in self._open if key[0] == request_id]:
            self._open.pop(key).built.cancel()

    def _has_chars(
        self, primitive: Primitive, store: ObjectStore, counts: Callable[[PromptPart], bool]
    ) -> bool:
        config = primitive.config
        if self.threads is None or not isinstance(config, PROMPTED):
            return False
        parts = prompt_parts(config.parts, store, primitive.node)
        return sum(_chars(part) for part in parts if counts(part)) > LONG_CHARS


def _chars(part: PromptPart) -> int:
    text = part if isinstance(part, str) or part is None else part.text
    return len(text or "")
