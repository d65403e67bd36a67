"""The invariants that hold after every simulation, with all faults that it injected."""

from collections.abc import Collection, Iterator

from heddle.core.errors import DeadlineExceeded, InternalError
from heddle.engines.llm.engine import LlmEngine
from heddle.runtime.events import Answer, RequestFailed
from heddle.simulator.port import SimulatedPort
from heddle.simulator.ticket import Ticket
from heddle.simulator.world import World


def violations(world: World) -> list[str]:
    """Return everything that is wrong with a world at rest, in words; empty if all is well.

    An Answer promises that its chunks are on the disk, unless they have rotted there since.
    """
    stored = world.disk.stored | world.disk.rotten
    found = world.all_problems()
    found += [problem for ticket in world.tickets for problem in _of_ticket(ticket, stored)]
    found += _of_runtime(world)
    for port in world.ports:
        found += _of_port(port)
    return found


def _of_ticket(ticket: Ticket, stored: Collection[int]) -> Iterator[str]:
    who = str(ticket)
    if ticket.busy is not None:
        if ticket.end is not None:
            yield f"{who} was turned away and answered"
        return
    if ticket.end is None and not ticket.is_cut_off:
        yield f"{who} was lost: no terminal event"
    if ticket.events_after_end:
        yield f"{who} got {ticket.events_after_end} event(s) after its terminal one"
    if isinstance(ticket.end, RequestFailed):
        error = ticket.end.error
        if isinstance(error, InternalError):
            yield f"{who} broke an invariant: {error}"
        if isinstance(error, DeadlineExceeded) and ticket.arrival.deadline_s is None:
            yield f"{who} hung until the runtime's own deadline: {error}"
    if isinstance(ticket.end, Answer):
        chunk_ids = ticket.arrival.inputs.get("chunk_ids", ())
        assert isinstance(chunk_ids, tuple), f"{who} has chunk ids {chunk_ids!r}"
        if lost := set(chunk_ids).difference(stored):
            yield f"{who} was told that chunks {sorted(lost)} are stored"


def _of_runtime(world: World) -> Iterator[str]:
    runtime = world.runtime
    held: dict[str, Collection[int]] = {
        "requests": runtime.requests.open,
        "tasks": runtime.tasks.open,
        "leases": runtime.tasks.leases,
    }
    for name, left in held.items():
        if left:
            yield f"the runtime still has {name} {sorted(left)}"
    admission = runtime.requests.admission
    if admission.live or admission.live_bulk:
        yield f"{admission.live} requests are still counted as live"
    for lane in runtime.lanes.values():
        if lane.in_flight or lane.scheduler.pending:
            yield f"lane {lane.port.name}: {lane.in_flight} in flight, {lane.scheduler.pending}"
        if lane.port.credits.used:
            yield f"lane {lane.port.name} keeps {lane.port.credits.used} credits"


def _of_port(port: SimulatedPort) -> Iterator[str]:
    engine = port.engine
    if port.is_given_up:
        return
    if engine is None:
        yield f"lane {port.name} is still down"
        return
    if engine.has_work:
        yield f"engine {port.name} still has work"
        return
    load = engine.step(port.timeline.now_s(), float("inf")).load
    if load.running or load.waiting:
        yield f"engine {port.name} still holds {load}"
    if isinstance(engine, LlmEngine):
        engine.check()
        fresh = port.lane.build(port.name, port.epoch, port.device)
        free = fresh.step(0.0, float("inf")).load.bytes_free
        if load.bytes_free != free:
            yield f"engine {port.name} has {load.bytes_free} of {free} KV bytes free"
