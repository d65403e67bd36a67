"""The engines that other servers are: their ports, on a thread of their own."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.models.remote_models import RemoteLlm
from heddle.app.runtime_thread import RuntimeThread
from heddle.core.ports import Clock, EnginePort
from heddle.engines.remote.endpoint import Endpoint, Endpoints
from heddle.engines.remote.generation.port import RemoteGenerator
from heddle.engines.remote.http.client import HttpClient

LLM: Final = "llm"
THREAD_NAME: Final = "heddle-remote"


def start_remote_ports(plan: ServerPlan, clock: Clock, ending: ExitStack) -> tuple[EnginePort, ...]:
    """Return the ports of a plan's remote models, or none, without any thread.

    Their requests run on a thread of their own, so that neither the network nor a large answer
    ever keeps the runtime's thread from its work.

    Mutates: `ending` takes in how to end the thread and the ports.
    """
    if plan.remote.generator is None:
        return ()
    thread = RuntimeThread(THREAD_NAME)
    ending.callback(thread.dispose)
    thread.start()
    ending.callback(thread.stop)
    ports = [_generator(plan.remote.generator, plan, clock, thread)]
    for port in ports:
        ending.callback(thread.call_last, port.close)
    return tuple(ports)


def _generator(
    model: RemoteLlm, plan: ServerPlan, clock: Clock, thread: RuntimeThread
) -> RemoteGenerator:
    endpoints = Endpoints(
        [
            Endpoint(HttpClient(address, model.name.key), replace(abilities))
            for address, abilities in zip(model.name.addresses, model.servers, strict=True)
        ]
    )
    return RemoteGenerator(LLM, endpoints, plan.config.max_num_seqs, clock, thread.event_loop)
