"""Readers of a list that begin with its first items. (Teola §4.2, passes 2 and 4)

Deviates: only where the engines that they go through have nothing else to do. Rows one by one are
more calls, and short ones, that overtake those of others: on a busy engine all requests together
end later by them.
"""

from dataclasses import dataclass

import numpy as np

from heddle.core.errors import HeddleError
from heddle.core.results import Vectors
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.written_list import WrittenList


@dataclass(slots=True)
class Pipeline:
    """Sends the rows of an Embedding, and of what reads its vectors, while its engines are free.

    Args:
        dispatcher: takes the rows.

    Mutates: the runs of the readers.
    """

    dispatcher: Dispatcher

    def hear(self, request: Request, decode: PrimitiveRun, text: str, now_s: float) -> None:
        """Take in what a generation has written next whose items others read."""
        if decode.listed is None:
            decode.listed = WrittenList()
        if decode.listed.add(text):
            self.feed(request, decode, now_s)

    def feed(self, request: Request, producer: PrimitiveRun, now_s: float) -> None:
        """Let the readers of a list go on with the items that are there by now."""
        for name in producer.plan.items_to:
            reader = request.runs.get(name)
            if reader is not None and reader.plan.grows and self._is_free(request, reader):
                self._begin(request, reader, now_s)

    def _is_free(self, request: Request, reader: PrimitiveRun) -> bool:
        """Whether the engines that rows go through next work for no other request."""
        behind = (request.runs.get(name) for name in reader.plan.items_to)
        runs = [reader, *(run for run in behind if run is not None and run.plan.grows)]
        return not any(
            self.dispatcher.works_for_others(run.primitive.kind, request) for run in runs
        )

    def _begin(self, request: Request, reader: PrimitiveRun, now_s: float) -> None:
        growing = [request.runs[name] for name in reader.plan.items_from if name in request.runs]
        if reader.waits != len(growing):
            return  # for something else, too
        store = request.store
        for producer in growing:
            items = _items(producer)
            if items is None:
                return
            store = store.with_value(producer.primitive.writes[0], items)
        try:
            self.dispatcher.begin(request, reader, store, now_s)
        except HeddleError:
            return  # as it will tell itself when the list is whole


def _items(producer: PrimitiveRun) -> object:
    """Return the rows of a value up to the first that is missing; None = there is none."""
    if producer.listed is not None:
        return tuple(producer.listed.items)
    vectors = [part.values for part in producer.first_parts() if isinstance(part, Vectors)]
    return Vectors(np.vstack(vectors)) if vectors else None
