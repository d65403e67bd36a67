"""Many requests at once: let in one after another, waiting where the server is full."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from heddle.core.errors import Busy
from heddle.runtime.clock import SystemClock
from heddle.runtime.events import Answer
from heddle.runtime.handle import Handle

PATIENCE_S: Final = 600.0  # how long a request without a deadline waits to be let in
WAIT_S_MIN: Final = 0.01  # a server that is about to have room is not asked without a pause

Inputs = str | Mapping[str, object]
Submit = Callable[[Inputs], Handle]
T = TypeVar("T")


class Patience:
    """How long one request waits to be let in [s]."""

    def __init__(self, patience_s: float) -> None:
        self._clock = SystemClock()
        self._until_s = self._clock.now_s() + patience_s

    def wait_s(self, busy: Busy) -> float:
        """Return when to ask a full server again: after its predicted wait [s].

        Raises:
            Busy: there is no time left.
        """
        left_s = self._until_s - self._clock.now_s()
        if left_s <= 0:
            raise busy
        return min(max(busy.wait_s, WAIT_S_MIN), left_s)


def answer_all(
    submit: Submit, many: Sequence[Inputs], patience_s: float, return_exceptions: bool
) -> list[Answer | Exception]:
    """Run many requests; see App.batch."""
    handles: list[Handle] = []

    def enter(inputs: Inputs) -> Handle:
        handles.append(submit_patiently(submit, inputs, handles, Patience(patience_s)))
        return handles[-1]

    try:
        entered = [_try(partial(enter, inputs), return_exceptions) for inputs in many]
        return [
            found if isinstance(found, Exception) else _try(found.result, return_exceptions)
            for found in entered
        ]
    finally:
        left = [handle for handle in handles if not handle.is_done]
        for handle in left:
            handle.cancel_soon()
        for handle in left:
            handle.wait()


async def answer_all_async(
    submit: Submit, many: Sequence[Inputs], patience_s: float, return_exceptions: bool
) -> list[Answer | Exception]:
    """Run many requests; see App.abatch."""
    door = Door(submit, patience_s)

    async def settle(inputs: Inputs) -> Answer | Exception:
        try:
            return await door.answer(inputs)
        except Exception as error:
            if not return_exceptions:
                raise
            return error

    tasks = [asyncio.ensure_future(settle(inputs)) for inputs in many]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Door:
    """Lets the requests of one batch in, in order."""

    def __init__(self, submit: Submit, patience_s: float) -> None:
        self._submit = submit
        self._patience_s = patience_s
        self._turn = asyncio.Lock()  # fair: who came first is let in first
        self._has_room = asyncio.Event()  # one of ours has ended

    async def answer(self, inputs: Inputs) -> Answer:
        """Run a request; cancelled or not, it has ended when this returns."""
        async with self._turn:
            handle = await self._enter(inputs)
        try:
            return await handle
        finally:
            if not handle.is_done:
                await handle.cancel()
            self._has_room.set()

    async def _enter(self, inputs: Inputs) -> Handle:
        patience = Patience(self._patience_s)
        while True:
            self._has_room.clear()
            try:
                return self._submit(inputs)
            except Busy as busy:
                wait_s = patience.wait_s(busy)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_room.wait(), wait_s)


def submit_patiently(
    submit: Submit, inputs: Inputs, handles: Sequence[Handle], patience: Patience
) -> Handle:
    """Submit a request as soon as the server has room for it, beside those of these handles.

    Raises:
        Busy: there was none in time.
    """
    while True:
        try:
            return submit(inputs)
        except Busy as busy:
            wait_s = patience.wait_s(busy)
        oldest = next((handle for handle in handles if not handle.is_done), None)
        if oldest is not None:
            oldest.wait(wait_s)
        else:
            threading.Event().wait(wait_s)  # others fill the server, and their ends are not told


def _try(work: Callable[[], T], return_exceptions: bool) -> T | Exception:
    try:
        return work()
    except Exception as error:
        if not return_exceptions:
            raise
        return error
