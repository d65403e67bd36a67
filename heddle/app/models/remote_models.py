"""The models of a server that other servers run: what they are, found out once at the start."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from heddle.app.models.remote_name import KEY_VARIABLE, RemoteName, is_remote, read_remote_name
from heddle.core.errors import ConfigError, InputError
from heddle.engines.remote.address import Address
from heddle.engines.remote.dialect import Abilities
from heddle.engines.remote.embedding import EmbedderAbilities, probe_embedder
from heddle.engines.remote.endpoint import A, Endpoint, Endpoints
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.probe import probe_generator, shown_name
from heddle.engines.remote.problem import MAY_PASS, RemoteProblem, Trouble
from heddle.engines.remote.reranking import RerankerAbilities, probe_reranker

T = TypeVar("T")
Probe = Callable[[HttpClient, str], Coroutine[Any, Any, A]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteModel(Generic[A]):
    """A model that other servers run.

    Args:
        name: as the user named it.
        servers: what each server can do, in the order of the addresses.
        texts: what is sent there, in words.
    """

    name: RemoteName
    servers: tuple[A, ...]
    texts: str

    @property
    def first(self) -> A:
        """What the first server can do."""
        return self.servers[0]

    def endpoints(self) -> Endpoints[A]:
        """Return the servers as an engine asks them, with a state of their own."""
        pairs = zip(self.name.addresses, self.servers, strict=True)
        clients = ((HttpClient(address, self.name.key), one) for address, one in pairs)
        return Endpoints([Endpoint(client, replace(one)) for client, one in clients])  # type: ignore[type-var]

    def destination(self) -> str:
        """Return where its texts go, in one line: the servers, the model, who could read them."""
        addresses = self.name.addresses
        where = ", ".join(map(str, addresses))
        place = " (this machine)" if all(address.is_here for address in addresses) else ""
        key = f", with the key in {self.name.key.source}" if self.name.key.value else ""
        model = f", model {shown_name(self.first.model)!r}" if self.first.model else ""
        is_readable = any(address.is_readable for address in addresses)
        warning = "; they are not encrypted on the way" if is_readable else ""
        return f"{self.texts} go to {where}{place}{model}{key}{warning}"


@dataclass(frozen=True, slots=True)
class RemoteModels:
    """Which of a server's models are remote; None = that one is not."""

    generator: RemoteModel[Abilities] | None = None
    embedder: RemoteModel[EmbedderAbilities] | None = None
    reranker: RemoteModel[RerankerAbilities] | None = None

    @property
    def are_there(self) -> bool:
        """Whether there is any."""
        return any(one is not None for one in (self.generator, self.embedder, self.reranker))

    @property
    def context_tokens_max(self) -> int | None:
        """The shortest context among the generator's servers; None = none of them says [tokens]."""
        servers = () if self.generator is None else self.generator.servers
        return min((n for one in servers if (n := one.context_tokens_max)), default=None)

    def lines(self) -> Iterator[str]:
        """Yield what they are and where text goes, as `heddle doctor` prints them."""
        if self.generator is not None:
            one = self.generator.first
            owner = f", run by {shown_name(one.owner)}" if one.owner else ""
            context = self.context_tokens_max
            limit = f", context {context:,} tokens" if context else ""
            yield f"generator {shown_name(one.model)}{owner}, asked at {one.dialect.value}{limit}"
        if self.embedder is not None:
            yield f"embedder {shown_name(self.embedder.first.fingerprint)}"
        if self.reranker is not None:
            yield f"reranker {shown_name(self.reranker.first.model)}"
        yield from self.destinations()

    def destinations(self) -> Iterator[str]:
        """Yield where text goes, a line for each model."""
        for model in (self.generator, self.embedder, self.reranker):
            if model is not None:
                yield model.destination()


NO_REMOTE_MODELS: Final = RemoteModels()


def open_remote_models(generator: object, embedder: object, reranker: object) -> RemoteModels:
    """Ask the servers of those models that are remote what they can do; no other is asked.

    Args:
        generator: the name as the user gave it; None = there is none.
        embedder: as above.
        reranker: as above.

    Raises:
        ConfigError: a name can't be used.
        InputError: no server answers, or one of them can't be used.
    """
    return RemoteModels(
        _opened(generator, "--model", "questions and passages", probe_generator),
        open_remote_embedder(embedder),
        _opened(reranker, "--reranker", "questions and passages to rank", probe_reranker),
    )


def open_remote_embedder(name: str | Path | object) -> RemoteModel[EmbedderAbilities] | None:
    """Ask the servers of a remote embedder for its vectors; None = it is not remote.

    Raises:
        ConfigError: the name can't be used.
        InputError: no server answers, or two of them have different models.
    """
    model = _opened(name, "--embedder", "passages and questions to embed", probe_embedder)
    prints = [] if model is None else list(dict.fromkeys(one.fingerprint for one in model.servers))
    if len(prints) > 1:
        raise InputError(
            f"--embedder: the addresses have different models ({', '.join(map(shown_name, prints))}"
            "): vectors of two models can't be compared; name servers of one model"
        )
    return model


def open_remote_judge(name: str) -> RemoteModel[Abilities]:
    """Ask the servers of a model that rates answers what they can do.

    Raises:
        ConfigError: the name can't be used, or names no remote model.
        InputError: no server answers, or one of them can't be used.
    """
    texts = "questions, answers and their passages"
    model = _opened(name, "--judge", texts, probe_generator)
    if model is None:
        raise ConfigError(
            f"--judge: {name!r} is no address of a model; write http://HOST:PORT/v1#NAME, or "
            "openai#NAME"
        )
    return model


def _opened(name: object, what: str, texts: str, probe: Probe[A]) -> RemoteModel[A] | None:
    if not is_remote(name):
        return None
    remote = read_remote_name(str(name), what, os.environ)
    return RemoteModel(remote, _probed(remote, what, probe), texts)


def _probed(name: RemoteName, what: str, probe: Probe[A]) -> tuple[A, ...]:
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
