"""The models of a server that other servers run: what they are, found out once at the start."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from heddle.app.models.remote_name import KEY_VARIABLE, RemoteName, read_remote_name
from heddle.core.errors import InputError
from heddle.engines.remote.address import Address
from heddle.engines.remote.generation.dialect import Abilities
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.probe import probe_generator, shown_name
from heddle.engines.remote.problem import MAY_PASS, RemoteProblem, Trouble

A = TypeVar("A")
T = TypeVar("T")
Probe = Callable[[HttpClient, str], Coroutine[Any, Any, A]]
PROMPTS: Final = "questions and passages"
TEXTS: Final = "texts to embed"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteLlm:
    """An LLM that other servers run.

    Args:
        name: as the user named it.
        servers: what each server can do.
    """

    name: RemoteName
    servers: tuple[Abilities, ...]

    @property
    def context_tokens_max(self) -> int | None:
        """The shortest context among the servers; None = none of them says [tokens]."""
        known = [one.context_tokens_max for one in self.servers if one.context_tokens_max]
        return min(known, default=None)

    def line(self) -> str:
        """Return the model and how it is asked, in words."""
        first = self.servers[0]
        owner = f", run by {shown_name(first.owner)}" if first.owner else ""
        context = self.context_tokens_max
        limit = f", context {context:,} tokens" if context else ""
        return f"generator {shown_name(first.model)}{owner}, asked at {first.dialect.value}{limit}"


@dataclass(frozen=True, slots=True)
class RemoteModels:
    """Which of a server's models are remote; None = that one is not.

    Args:
        generator: the LLM.
    """

    generator: RemoteLlm | None = None

    def lines(self) -> Iterator[str]:
        """Yield what the remote models are, as `heddle doctor` prints them."""
        if self.generator is not None:
            yield self.generator.line()
        yield from self.destinations()

    def destinations(self) -> Iterator[str]:
        """Yield where text goes, a line for each kind of text."""
        if self.generator is not None:
            yield destination(PROMPTS, self.generator.name, self.generator.servers[0].model)


NO_REMOTE_MODELS: Final = RemoteModels()


def destination(what: str, name: RemoteName, model: str) -> str:
    """Return where texts go, in one line: the addresses, the model, and who could read them."""
    where = ", ".join(map(str, name.addresses))
    key = f", with the key in {name.key.source}" if name.key.value else ""
    leaves = not all(address.is_here for address in name.addresses)
    clear = any(address.is_readable for address in name.addresses)
    warning = ": not encrypted on the way" if clear else ""
    place = "" if leaves else " (this machine)"
    return f"{what} go to {where}{place}, model {shown_name(model)!r}{key}{warning}"


def open_remote_llm(name: str) -> RemoteLlm:
    """Ask the servers of a remote LLM what they can do.

    Raises:
        ConfigError: the name can't be used.
        InputError: no server answers, or one of them can't be used.
    """
    remote = read_remote_name(name, "--model", os.environ)
    return RemoteLlm(remote, probed(remote, "--model", probe_generator))


def probed(name: RemoteName, what: str, probe: Probe[A]) -> tuple[A, ...]:
    """Ask all servers of a model side by side; return an answer for each.

    A server that can't be reached now is taken to be as the first one that can.

    Raises:
        InputError: none can be reached, or one has another API, no such model, or wants a key.
    """

    async def ask(address: Address) -> A | RemoteProblem:
        client = HttpClient(address, name.key)
        try:
            return await probe(client, name.model)
        except RemoteProblem as problem:
            return problem
        finally:
            client.close()

    async def ask_all() -> Sequence[A | RemoteProblem]:
        return await asyncio.gather(*map(ask, name.addresses))

    found = run_apart(ask_all)
    usable = [one for one in found if not isinstance(one, RemoteProblem)]
    answers = []
    for address, one in zip(name.addresses, found, strict=True):
        if isinstance(one, RemoteProblem):
            if not usable or one.trouble not in MAY_PASS | {Trouble.LATE}:
                raise InputError(_refused(what, address, one, name)) from None
            log.warning("%s: %s %s; the others are used meanwhile", what, address, one.words)
            one = replace(usable[0])  # type: ignore[type-var]
        answers.append(one)
    return tuple(answers)


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop of its own, also where this thread runs one already."""
    with ThreadPoolExecutor(1, thread_name_prefix="heddle-probe") as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


def _refused(what: str, address: Address, problem: RemoteProblem, name: RemoteName) -> str:
    fix = ""
    if problem.trouble is Trouble.NO_ENTRY and not name.key.value:
        fix = f"; set {name.key.source or KEY_VARIABLE}"
    return f"{what}: {address} {problem.words}{fix}"
