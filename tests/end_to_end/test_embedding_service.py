"""The embedding service of a running server: vectors, refusals, two lanes behind one door."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from heddle.app.embedding_depths import DepthTable, FoundDepths, depths_record
from heddle.app.server import Server
from heddle.core.dtypes import DTYPES
from heddle.core.errors import (
    Busy,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
)
from heddle.corpus.store import CorpusStore
from heddle.runtime.supervision import LaneState
from heddle.workflow.ragraph import RAGraph
from tests.helpers.empty_server import serve_empty
from tests.helpers.server_state import eventually, kill_lane, pid_of

TEXTS = ["the tide", "a loom weaves cloth from yarn", "the harbour of the old town"]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    CorpusStore.open(folder, create=True).close()
    return folder


@pytest.fixture(scope="module")
def server(empty: Path) -> Iterator[Server]:
    with serve_empty(empty, dtype="float32") as running:
        yield running


@pytest.mark.numerics
def test_vectors_of_texts_in_their_order(server: Server) -> None:
    vectors = server.embed(TEXTS)
    assert vectors.values.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors.values, axis=1), 1, atol=1e-5)
    for text, vector in zip(TEXTS, vectors.values, strict=True):
        np.testing.assert_allclose(server.embed([text]).values[0], vector, atol=1e-5)
    assert server.embed([TEXTS[0]], role="query", priority="bulk").tokens == 4


def test_what_can_not_be_asked_is_refused_with_the_fix(server: Server) -> None:
    with pytest.raises(InputError, match="at least one text"):
        server.embed([])
    with pytest.raises(InputError, match=r"vectors of .* have 384; leave dimensions out"):
        server.embed(TEXTS, dimensions=128)
    with pytest.raises(InputError, match="give at least"):
        server.embed(["word " * 200], deadline_s=0.001)


def test_a_burst_is_answered_in_part_and_refused_in_part(server: Server) -> None:
    answers: list[object] = []

    def ask(number: int) -> None:
        try:
            answers.append(server.embed([f"{number} " + "word " * 150], deadline_s=1.0))
        except (Busy, DeadlineExceeded) as error:
            answers.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [answer for answer in answers if isinstance(answer, Busy)]
    assert 0 < len(refused) < 80
    assert all(0 < busy.wait_s < 10 for busy in refused)
    eventually(lambda: server.health()["embedding"]["embedding"]["queries"] == 0)


def test_a_deadline_holds_while_the_lane_does_not_answer(empty: Path) -> None:
    with serve_empty(empty, dtype="float32") as server:
        frozen = pid_of(server, "retrieval")
        os.kill(frozen, signal.SIGSTOP)
        with pytest.raises(DeadlineExceeded):  # it counts as dead a second later
            server.embed(TEXTS, deadline_s=1.0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(frozen, signal.SIGCONT)
        assert server.embed(TEXTS, deadline_s=60.0).values.shape == (3, 384)


def two_lanes() -> str:
    """Name two lanes of one core each, or skip."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("two lanes need two cores")
    return f"cpu:{cores[0]},cpu:{cores[-1]}"


@pytest.mark.numerics
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_two_lanes_answer_for_one_service(server: Server, empty: Path, dtype: str) -> None:
    named = two_lanes()
    with serve_empty(empty, embedding_lanes=named, dtype=dtype) as two:
        shown = two.health()
        assert set(shown["lanes"]) == {"retrieval", "embedding-cpu0", "embedding-cpu1"}
        assert set(shown["embedding"]) == {"embedding-cpu0", "embedding-cpu1"}
        pids = [pid_of(two, f"embedding-cpu{number}") for number in (0, 1)]
        pinned = [os.sched_getaffinity(pid) for pid in pids]
        assert pinned == [{int(part.removeprefix("cpu:"))} for part in named.split(",")]
        texts = [f"{number} of many texts" for number in range(40)]
        for at in range(0, len(texts), 8):  # whichever lane, within the documented tolerance
            part = texts[at : at + 8]
            expected = server.embed(part).values
            found = two.embed(part).values
            if dtype == "float32":
                np.testing.assert_allclose(found, expected, atol=1e-5)
            assert (found * expected).sum(1).min() > 0.999
        search = two.app(RAGraph("search").add_retrieval("find"))
        search.submit("the tide").cancel_soon()


def test_algorithm_1_refuses_what_is_beyond_the_depths_that_were_profiled(
    empty: Path, tmp_path: Path
) -> None:
    found = {"embedding-cpu0": FoundDepths(1, 1, 1), "embedding-cpu1": FoundDepths(0, 0, 0)}
    file = tmp_path / "depths.json"
    file.write_text(json.dumps(depths_record([DepthTable(2.0, found)], 75)), encoding="utf-8")
    with serve_empty(
        empty,
        embedding_lanes=two_lanes(),
        embedding_admission="windve",
        embedding_slo_s=2.0,
        embedding_depths=file,
    ) as server:
        assert server.embed(TEXTS, deadline_s=60.0).values.shape == (3, 384)
        busy: list[Busy] = []

        def ask() -> None:
            try:
                server.embed(["word " * 150], deadline_s=60.0)
            except Busy as error:
                busy.append(error)

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert busy, "the one open lane holds one query at a time"


def is_back(server: Server, lane: str) -> bool:
    health = server.state().lanes[lane]
    return health.restarts > 0 and health.state is LaneState.READY


def test_a_lane_that_dies_is_started_again_and_the_other_answers_meanwhile(empty: Path) -> None:
    with serve_empty(empty, embedding_lanes=two_lanes(), dtype="float32") as server:
        kill_lane(server, "embedding-cpu0")
        answers = 0
        while not (answers > 2 and is_back(server, "embedding-cpu0")):
            with contextlib.suppress(EngineError):  # of what was on the lane when it died
                answers += len(server.embed(TEXTS).values) == len(TEXTS)
        np.testing.assert_allclose(np.linalg.norm(server.embed(TEXTS).values, axis=1), 1, atol=1e-5)


def test_long_texts_are_read_in_windows_where_the_server_or_the_call_says_so(empty: Path) -> None:
    long = "word " * 300
    with serve_empty(empty, long_texts="window", engine_host="inline") as server:
        vectors = server.embed([long, "word"])
        assert (vectors.windowed, vectors.truncated) == (1, 0)
        assert vectors.tokens > 300
        np.testing.assert_allclose(np.linalg.norm(vectors.values, axis=1), 1, atol=1e-5)
        cut = server.embed([long, "word"], long_texts="cut")
        assert (cut.windowed, cut.truncated) == (0, 1)
        with pytest.raises(ConfigError, match="long_texts must be one of cut, window"):
            server.embed([long], long_texts="fold")


def test_closing_ends_what_is_under_way(empty: Path) -> None:
    server = serve_empty(empty)
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            texts = [f"{number} " + "word " * 150 for number in range(200)]
            server.embed(texts, priority="normal")
        except HeddleError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive() and not server.health()["embedding"]["embedding"]["queries"]:
        pass  # until it has begun
    server.close()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert len(failed) == 1
