"""What a server refuses before it starts anything, and that it leaves nothing behind then."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.app import server as server_module
from heddle.app.observe.tally import Outcome
from heddle.app.priming.request import NO_NEIGHBOURS, priming_workflow
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.app.submission import admit
from heddle.core.errors import ConfigError, HeddleError, InputError
from heddle.core.tasks import Priority
from heddle.corpus.store import CorpusStore
from heddle.hosts.lane_spec import EngineSpec
from heddle.runtime.request import EventSink
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow
from tests.helpers.echo_engine import EchoEngine, EchoSettings
from tests.helpers.empty_server import serve_empty


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_an_unknown_setting_is_named():
    with pytest.raises(ConfigError, match="temprature"):
        Server("reader", temprature=1)


def test_nothing_to_serve():
    with pytest.raises(ConfigError, match="both are None"):
        Server(None)


def test_no_corpus(tmp_path: Path):
    with pytest.raises(InputError, match="heddle index PATH"):
        Server(None, tmp_path)


def test_an_empty_corpus(tmp_path: Path):
    CorpusStore.open(tmp_path, create=True).close()
    with pytest.raises(InputError, match="holds nothing to search"):
        Server(None, tmp_path)


def test_engines_that_can_not_be_built(tmp_path: Path):
    """What was started before the error has to end again."""
    CorpusStore.open(tmp_path, create=True).close()
    (tmp_path / "weights.safetensors").touch()
    with pytest.raises(HeddleError, match=r"config\.json"):
        serve_empty(tmp_path, embedder=tmp_path, engine_host="inline")


class Closing(EchoEngine):
    """An engine that notes its name when it is closed."""

    def __init__(self, spec: EngineSpec, told: list[str]) -> None:
        super().__init__(spec.name, 1, EchoSettings())
        self.kinds = spec.kinds
        self._told = told

    def close(self) -> None:
        self._told.append(self.name)


def serve_inline(
    directory: Path, monkeypatch: pytest.MonkeyPatch, broken: str = ""
) -> tuple[list[str], list[str]]:
    """Start and close a server of inline engines; return those built and those closed."""
    built: list[str] = []
    closed: list[str] = []

    def build(spec: EngineSpec, epoch: int) -> Closing:
        if spec.name == broken:
            raise ConfigError(f"{broken} can't be built")
        built.append(spec.name)
        return Closing(spec, closed)

    monkeypatch.setattr("heddle.app.assembly.assemble.call_factory", build)
    CorpusStore.open(directory, create=True).close()
    try:
        server = serve_empty(directory, engine_host="inline")
    except ConfigError:
        return built, closed
    assert not closed
    handle = server.submit(RAGraph("search").add_retrieval("find"), "why")
    server.close()
    server.close()
    with pytest.raises(HeddleError):
        handle.result(timeout_s=0)
    return built, closed


def test_inline_engines_are_closed_once_the_last_one_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    built, closed = serve_inline(tmp_path, monkeypatch)
    assert built == ["embedding", "vector"]
    assert closed == ["vector", "embedding"]


def test_an_engine_is_closed_when_the_next_one_can_not_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    built, closed = serve_inline(tmp_path, monkeypatch, broken="vector")
    assert built == closed == ["embedding"]


@pytest.fixture
def empty_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(
        "heddle.app.assembly.assemble.call_factory", lambda spec, epoch: Closing(spec, [])
    )
    CorpusStore.open(tmp_path, create=True).close()
    with serve_empty(tmp_path, engine_host="inline") as server:
        yield server


@pytest.mark.parametrize(
    ("inputs", "how", "words"),
    [
        (None, {}, "inputs: give the question as a string"),
        ({"query": 3}, {}, "query must be a string"),
        ("why", {"tenant": 7}, "tenant must be a string"),
        ("why", {"deadline_s": "3"}, "deadline_s must be a number"),
    ],
)
def test_arguments_of_a_wrong_type_start_nothing(
    empty_server: Server, inputs: object, how: dict, words: str
):
    app = empty_server.app(RAGraph("search").add_retrieval("find"))
    with pytest.raises(InputError, match=words):
        app.submit(inputs, **how)
    with pytest.raises(InputError, match=words):
        app.batch([inputs], **how)
    assert empty_server.health()["requests"] == 0


def test_requests_are_counted_as_they_end(empty_server: Server):
    find = RAGraph("search").add_retrieval("find")
    write = RAGraph("write").add_generation("answer", "{query}")
    before = empty_server.state()
    with pytest.raises(ConfigError):
        empty_server.submit(write, "why", priority="bulk")
    handle = empty_server.submit(find, "why")
    handle.cancel_soon()
    handle.wait()
    outcomes = empty_server.state().tally.outcomes
    assert outcomes[Priority.BULK, Outcome.REFUSED] == 1
    assert sum(outcomes.values()) == 2
    assert not before.tally.outcomes, "a state is as of one moment"


class CountingWatch:
    """Counts the requests whose stages a memory watch would count."""

    state = None

    def __init__(self) -> None:
        self.count = 0

    def watched(self, sink: EventSink) -> EventSink:
        self.count += 1
        return sink


def test_priming_is_no_request_that_memory_is_split_for(empty_server: Server, monkeypatch):
    watch = CountingWatch()

    def watched(running, *asked):
        return admit(replace(running, memory=watch), *asked)

    monkeypatch.setattr(server_module, "admit", watched)
    for workflow in (RAGraph("search").add_retrieval("find"), priming_workflow(NO_NEIGHBOURS, 1)):
        inputs = dict.fromkeys(workflow.inputs if isinstance(workflow, Workflow) else ["query"], "")
        with suppress(HeddleError):
            empty_server.submit(workflow, inputs).cancel_soon()
    assert watch.count == 1


def test_a_state_names_every_engine(empty_server: Server):
    state = empty_server.state()
    assert state.engines.keys() == {"embedding", "vector", "tools", "documents"}
    assert (state.requests, state.corpus_revision, state.lanes) == (0, 0, {})
    assert state.embedding is not None
    empty_server.close()
    with pytest.raises(HeddleError, match="closed"):
        empty_server.state()


def test_a_search_for_more_than_the_corpus_holds(empty_server: Server):
    search = RAGraph("search").add_retrieval("find", topk=7)
    with pytest.raises(InputError, match=r"'find': topk is 7 and the corpus holds 0 chunks; lower"):
        empty_server.submit(search, "why")
    for fewer in (
        RAGraph("search").add_retrieval("find", topk=7, allow_fewer=True),
        RAGraph("search").add_retrieval("find"),
    ):
        empty_server.submit(fewer, "why").cancel_soon()  # it is taken; its end doesn't matter
        with pytest.raises(InputError, match=r"'find': topk is 3 and the corpus holds 0 chunks"):
            empty_server.submit(fewer, "why", topk=3)


def test_a_request_changes_its_searches_and_no_other_s(empty_server: Server):
    find = RAGraph("search").add_retrieval("find").compile()
    handles = [empty_server.submit(find, "why", hybrid=how) for how in (True, None, True)]
    for handle in handles:
        handle.cancel_soon()
    assert not find.nodes["find"].hybrid
    write = RAGraph("write").add_generation("answer", "{query}")
    for how in ({"topk": 3}, {"hybrid": True}, {"where": {"lang": "en"}}):
        with pytest.raises(InputError, match="workflow 'write' retrieves nothing: leave it out"):
            empty_server.submit(write, "why", **how)
    with pytest.raises(InputError, match=r"'topK' is no option of a request: did you mean 'topk'"):
        empty_server.submit(find, "why", topK=3)


def test_a_config_starts_a_server_as_keywords_do(tmp_path: Path, empty_server: Server):
    assert empty_server.config == ServerConfig.of(None, tmp_path, {"engine_host": "inline"})


@pytest.mark.parametrize(
    "settings",
    [{"optimizations": "bogus"}, {"dtype": "float17"}, {"device": "gpu"}, {"nprobe": 0}],
)
def test_a_wrong_setting_is_refused_before_anything_starts(settings: dict):
    threads = threading.active_count()
    (name,) = settings
    with pytest.raises(ConfigError, match=f"^{name} must be "):
        Server("reader", **settings)
    assert threading.active_count() == threads
