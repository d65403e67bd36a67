"""A server's state as /health shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from heddle.app.observe.server_state import CorpusState, ServerState
from heddle.corpus.damage import remedy
from heddle.runtime.supervision import LaneHealth, LaneState


def health_of(state: ServerState) -> dict[str, object]:
    """Return the state of every lane and of the runtime, as plain values.

    It is ready while each role has a ready lane. The status is "degraded" where somebody should
    act: a lane is not ready, an engine lacks something, such as disk space, chunks of the corpus
    are damaged, or a pass has failed. While `ready` stays true then, the answers are the same but
    for damaged passages and lost shards, which are left out.
    """
    last = {name: engine.last for name, engine in state.engines.items() if engine.last is not None}
    notes = {name: list(frame.notes) for name, frame in last.items() if frame.notes}
    if state.corpus is not None and (found := _corpus_notes(state.corpus)):
        notes["corpus"] = found
    if state.failed_passes:
        notes["passes"] = [
            f"optimizer pass {name} has failed: what it changes is left out"
            for name in state.failed_passes
        ]
    roles = {role: _ready_of(lanes, state) for role, lanes in state.roles.items()}
    if down := [name for name, lane in state.lanes.items() if not _is_ready(lane)]:
        notes["lanes"] = [_lane_note(name, state, roles) for name in down]
    embedding = {} if state.embedding is None else state.embedding.lanes
    return {
        "status": "degraded" if notes else "ok",
        "ready": all(roles.values()),
        "roles": roles,
        "lanes": {name: _lane(lane) for name, lane in state.lanes.items()},
        "embedding": {name: asdict(lane) for name, lane in embedding.items()},
        "repriming": {} if state.repriming is None else asdict(state.repriming),
        "memory_split": {} if state.memory is None else asdict(state.memory),
        "answer_cache": asdict(state.answers),
        "recall": {
            name: asdict(frame.recall) for name, frame in last.items() if frame.recall is not None
        },
        "notes": notes,
        "requests": state.requests,
        "finished": state.counters.finished,
        "failed": state.counters.failed,
        "retries": state.counters.retries,
        "predicted_wait_s": state.predicted_wait_s,
    }


def given_up(state: ServerState) -> dict[str, str]:
    """Return why lanes were given up whose role has no other lane left, by their names."""
    failed = {n: lane.reason for n, lane in state.lanes.items() if lane.state is LaneState.FAILED}
    lost = [lanes for lanes in state.roles.values() if all(name in failed for name in lanes)]
    return {name: failed[name] for lanes in lost for name in lanes}


def unserved_roles(health: Mapping[str, object]) -> list[str]:
    """Return the roles without a ready lane, of what `health_of` has returned."""
    roles = health["roles"]
    assert isinstance(roles, dict), "health has no roles"
    return [role for role, lanes in roles.items() if not lanes]


def _corpus_notes(corpus: CorpusState) -> list[str]:
    notes = [f"the corpus can't be checked: {corpus.problem}"] if corpus.problem else []
    if corpus.damaged_chunks:
        count = f"{corpus.damaged_chunks} chunks of {corpus.name}"
        notes.append(f"{count} are damaged and left out; {remedy(corpus.name)}")
    return notes


def _is_ready(lane: LaneHealth) -> bool:
    return lane.state is LaneState.READY


def _ready_of(lanes: Sequence[str], state: ServerState) -> list[str]:
    return [name for name in lanes if _is_ready(state.lanes[name])]


def _lane_note(name: str, state: ServerState, roles: Mapping[str, Sequence[str]]) -> str:
    """Return in words why a lane is down, and who does its work meanwhile."""
    lane = state.lanes[name]
    why = f" ({lane.reason})" if lane.reason else ""
    own = [role for role, lanes in state.roles.items() if name in lanes]
    work = [f"{role}: {', '.join(roles[role]) or 'no lane is ready'}" for role in own]
    return f"lane {name} is {lane.state.value}{why}; {'; '.join(work)}"


def _lane(lane: LaneHealth) -> dict[str, object]:
    return {
        "state": lane.state.value,
        "epoch": lane.epoch,
        "restarts": lane.restarts,
        "reason": lane.reason,
        **({"node": lane.place} if lane.place else {}),
    }
