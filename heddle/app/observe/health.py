"""A server's state as /health shows it."""

from dataclasses import asdict

from heddle.app.observe.server_state import CorpusState, ServerState
from heddle.corpus.damage import remedy
from heddle.runtime.supervision import LaneHealth, LaneState


def health_of(state: ServerState) -> dict[str, object]:
    """Return the state of every lane and of the runtime, as plain values.

    The status is "degraded" where somebody should act: a lane is not ready, or an engine lacks
    something, such as disk space, chunks of the corpus are damaged, or a pass has failed. Then
    `ready` stays true, and the answers are the same but for the damaged passages, which are left
    out.
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
    is_ready = all(lane.state is LaneState.READY for lane in state.lanes.values())
    embedding = {} if state.embedding is None else state.embedding.lanes
    return {
        "status": "ok" if is_ready and not notes else "degraded",
        "ready": is_ready,
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


def _corpus_notes(corpus: CorpusState) -> list[str]:
    notes = [f"the corpus can't be checked: {corpus.problem}"] if corpus.problem else []
    if corpus.damaged_chunks:
        count = f"{corpus.damaged_chunks} chunks of {corpus.name}"
        notes.append(f"{count} are damaged and left out; {remedy(corpus.name)}")
    return notes


def _lane(lane: LaneHealth) -> dict[str, object]:
    return {
        "state": lane.state.value,
        "epoch": lane.epoch,
        "restarts": lane.restarts,
        "reason": lane.reason,
        **({"node": lane.place} if lane.place else {}),
    }
