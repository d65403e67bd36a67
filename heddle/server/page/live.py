"""GET /v1/live: what every lane does now, in one small reply that a page can poll."""

from dataclasses import asdict

from heddle.app.observe.health import health_of
from heddle.app.observe.server_state import EngineState, ServerState
from heddle.kv.chunk_key import HitKind
from heddle.server.wire import Json


def live_json(state: ServerState) -> Json:
    """Return queues, batches, tiers of KV and hits, as of one moment.

    Counters begin with the server. `gauges` has the names of `core.gauges`.
    """
    health = health_of(state)
    kept = ("status", "ready", "notes", "requests", "finished", "failed", "predicted_wait_s")
    return {
        **{name: health[name] for name in kept},
        "lanes": health["lanes"],
        "engines": {name: _engine(engine) for name, engine in state.engines.items()},
        "embedding": {
            name: {"queries": lane.queries, "stretch": lane.stretch}
            for name, lane in ({} if state.embedding is None else state.embedding.lanes).items()
        },
        "chunk_hits": {kind.value: state.tally.chunks[kind.value] for kind in HitKind},
        "counters": asdict(state.tally.counts),
        "cycle_passes": {name: asdict(count) for name, count in state.cycle_passes.items()},
        "corpus_revision": state.corpus_revision,
    }


def _engine(engine: EngineState) -> Json:
    last = engine.last
    return {
        "queued": engine.queued,
        "sent": engine.in_flight,
        "waiting": 0 if last is None else last.load.waiting,
        "running": 0 if last is None else last.load.running,
        "gauges": {} if last is None else dict(last.gauges),
    }
