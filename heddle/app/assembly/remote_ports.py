"""The engines that other servers are: their ports, on a thread of their own."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.runtime_thread import RuntimeThread
from heddle.core.ports import Clock, EnginePort
from heddle.engines.remote.call_port import CallPort
from heddle.engines.remote.embedding import remote_embedder
from heddle.engines.remote.generation.port import RemoteGenerator
from heddle.engines.remote.reranking import remote_reranker

GENERATOR: Final = "llm"
EMBEDDER: Final = "remote-embedding"
RERANKER: Final = "reranking"
THREAD_NAME: Final = "heddle-remote"


def start_remote_ports(plan: ServerPlan, clock: Clock, ending: ExitStack) -> tuple[EnginePort, ...]:
    """Return the ports of a plan's remote models; where it has none, no thread is started.

    Their requests run on a thread of their own, so that neither the network nor a large answer
    ever keeps the runtime's thread from its work.

    Mutates: `ending` takes in how to end the thread and the ports.
    """
    if not plan.remote.are_there:
        return ()
    thread = RuntimeThread(THREAD_NAME)
    ending.callback(thread.dispose)
    thread.start()
    ending.callback(thread.stop)
    ports = tuple(_ports(plan, clock, thread))
    for port in ports:
        ending.callback(thread.call_last, port.close)
    return ports


def _ports(
    plan: ServerPlan, clock: Clock, thread: RuntimeThread
) -> Iterator[RemoteGenerator | CallPort]:
    remote, loop = plan.remote, thread.event_loop
    if remote.generator is not None:
        endpoints = remote.generator.endpoints()
        yield RemoteGenerator(GENERATOR, endpoints, plan.config.max_num_seqs, clock, loop)
    if remote.embedder is not None:
        yield remote_embedder(EMBEDDER, remote.embedder.endpoints(), clock, loop)
    if remote.reranker is not None:
        yield remote_reranker(RERANKER, remote.reranker.endpoints(), clock, loop)
