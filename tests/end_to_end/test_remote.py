"""Whole servers with models that another server runs, and one that must talk to none."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import Server
from heddle.core.errors import (
    ConfigError,
    DeadlineExceeded,
    EngineError,
    InputError,
)
from heddle.core.prompts.constraint import Constraint
from heddle.core.tasks import Optimizations
from heddle.runtime.events import TokenDelta
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.degraded import kinds
from tests.helpers.fake_endpoint import FakeEndpoint, Step, piece, plain, stream_head, usage

QUESTION = "Who is the keeper of Rock 1?"
WAIT_S = 20.0
# Every process of the command gets this hook, lanes as well: it ends what opens a network socket.
FORBIDDING = """
import os, socket, sys

def forbid(event, arguments):
    if event == "socket.__new__" and arguments[1] in (socket.AF_UNIX, -1):
        return  # -1 = one that is open already and handed over, as lanes have theirs
    if event in ("socket.__new__", "socket.connect", "socket.getaddrinfo", "socket.sendto"):
        if event != "socket.connect" or not isinstance(arguments[1], (str, bytes)):
            with open(os.environ["FORBIDDEN_LOG"], "a") as log:
                log.write(f"{event} {arguments[1:]}\\n")
            raise PermissionError(f"{event} is forbidden here")

sys.addaudithook(forbid)
"""


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(dims=64, ranks=True) as running:
        yield running


@pytest.fixture(scope="module")
def remote(fake: FakeEndpoint, corpus: Path) -> Iterator[Server]:
    with Server(fake.url, corpus, reranker=None, engine_host="inline") as running:
        yield running


def test_a_remote_model_answers_from_the_corpus(remote: Server, fake: FakeEndpoint) -> None:
    answer = remote.app("oneshot").invoke(QUESTION)
    assert answer.text == "Ada keeps it."
    assert len(answer.passages) == 5
    receipt = answer.receipt
    assert receipt.remotes == (f"fake-model at {fake.url}",)
    assert receipt.numerics == "remote"
    assert (receipt.prompt_tokens, receipt.prompt_tokens_reused) == (100, 40)
    assert (receipt.generated_tokens, receipt.retries, receipt.degradations) == (3, 0, ())
    (message,) = fake.generations[-1].body["messages"]
    assert QUESTION in message["content"]
    assert "Its keeper is Ada" in message["content"]


def test_its_text_streams(remote: Server) -> None:
    events = list(remote.app("oneshot").stream(QUESTION))
    text = "".join(event.text for event in events if isinstance(event, TokenDelta))
    assert text == "Ada keeps it."


def test_a_tenant_hears_that_its_prefix_may_be_shared(remote: Server) -> None:
    receipt = remote.app("oneshot").invoke(QUESTION, tenant="acme").receipt
    assert kinds(receipt) == ["remote"]
    assert "prefix cache" in receipt.degradations[0].reason


def test_an_answer_of_a_given_form_is_asked_for_there(remote: Server, fake: FakeEndpoint) -> None:
    schema = {"type": "object", "properties": {"keeper": {"type": "string"}}}
    form = Constraint.json_schema(schema)
    answer = remote.app("oneshot").invoke(QUESTION, constraint=form)
    asked = fake.generations[-1].body["response_format"]
    assert asked["json_schema"]["schema"] == schema
    assert answer.text == "Ada keeps it."
    assert "not of the form asked for" in answer.receipt.degradations[0].reason
    with pytest.raises(ConfigError, match="a regex goes only to a server of vLLM"):
        remote.submit("oneshot", QUESTION, constraint=Constraint.regex("a+"))


def test_a_caller_that_leaves_hangs_up(remote: Server, fake: FakeEndpoint) -> None:
    fake.hung_up.clear()
    fake.replies.append((stream_head(), piece("Ada"), Step.HANG))
    events = remote.app("oneshot").stream(QUESTION)
    assert any(isinstance(event, TokenDelta) for event in events)
    events.close()  # type: ignore[attr-defined]
    assert fake.hung_up.wait(WAIT_S)


def test_the_deadline_of_a_request_hangs_up(remote: Server, fake: FakeEndpoint) -> None:
    fake.hung_up.clear()
    fake.replies.append((Step.HANG,))
    with pytest.raises(DeadlineExceeded):
        remote.app("oneshot").invoke(QUESTION, deadline_s=0.5)
    assert fake.hung_up.wait(WAIT_S)


def test_a_failure_ends_its_request_and_no_other(remote: Server, fake: FakeEndpoint) -> None:
    fake.replies.append((stream_head(), piece("Ada"), Step.CUT))
    with pytest.raises(EngineError, match=r"connection .* after 3 characters"):
        remote.app("oneshot").invoke(QUESTION)
    fake.replies.extend([plain(500, "a traceback of the other side")] * 3)
    with pytest.raises(EngineError, match=r"\(500\); --verbose logs its reason; 3 tries") as failed:
        remote.app("oneshot").invoke(QUESTION)
    assert "traceback" not in str(failed.value)
    fake.replies.append(plain(400, {"error": {"code": "context_length_exceeded"}}))
    with pytest.raises(InputError, match="context"):
        remote.app("oneshot").invoke(QUESTION)
    assert remote.app("oneshot").invoke(QUESTION).text == "Ada keeps it."
    assert remote.health()["status"] == "ok"


def test_tokens_are_counted_by_pieces_where_the_other_side_counts_none(
    remote: Server, fake: FakeEndpoint
) -> None:
    end = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    fake.replies.append((stream_head(), piece("Ada "), piece("does.", "stop"), end))
    receipt = remote.app("oneshot").invoke(QUESTION).receipt
    assert (receipt.prompt_tokens, receipt.generated_tokens) == (0, 2)
    fake.replies.append((stream_head(), piece("Ada", "stop"), usage(7, 5), end))
    assert remote.app("oneshot").invoke(QUESTION).receipt.generated_tokens == 5


def test_one_server_of_two_may_go_and_come_back(fake: FakeEndpoint, corpus: Path) -> None:
    settings = {"reranker": None, "engine_host": "inline"}
    with FakeEndpoint() as other:
        port, names = other.port, f"{other.url},{fake.url}"
        server = Server(names, corpus, **settings)
    with server:  # the other one is gone now
        for _ in range(3):
            assert server.app("oneshot").invoke(QUESTION).text == "Ada keeps it."
        health = server.health()
        assert health["ready"]
        (note,) = health["notes"]["llm"]  # type: ignore[index]
        assert note.startswith(f"http://127.0.0.1:{port}/v1 ")
        with FakeEndpoint(port=port, words=("Back.",)):
            texts = (server.app("oneshot").invoke(QUESTION).text for _ in range(2000))
            assert "Back." in texts, "it is asked again after a while"
            assert server.health()["notes"] == {}


def test_a_key_is_not_shown(
    fake: FakeEndpoint, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDDLE_REMOTE_KEY", "very-secret")
    with Server(fake.url, corpus, reranker=None, engine_host="inline") as server:
        answer = server.app("oneshot").invoke(QUESTION)
        fake.replies.append(plain(401, {"error": {"message": "very-secret is wrong"}}))
        with pytest.raises(EngineError, match="refuses the key") as failed:
            server.app("oneshot").invoke(QUESTION)
        shown = f"{server.health()} {answer} {failed.value} {server.plan} {server.plan.record()}"
    assert fake.generations[-1].headers["authorization"] == "Bearer very-secret"
    assert "very-secret" not in shown


def test_what_only_own_models_can_do_is_refused_by_name(
    remote: Server, fake: FakeEndpoint, corpus: Path
) -> None:
    graph = RAGraph("looks_again")
    graph.add_retrieval("find", "{query}", "docs", topk=2)
    graph.add_generation("answer", "{docs}{query}", retrieve_every=4)
    graph.add_edge(START, "find")
    graph.add_edge("find", "answer")
    graph.add_edge("answer", END)
    with pytest.raises(ConfigError, match="'answer' retrieves while it writes"):
        remote.submit(graph, QUESTION)
    settings = {"kv_reuse": "fusionrag", "llm_lanes": "prefill,decode"}
    with pytest.raises(ConfigError, match="--kv-reuse, --llm-lanes: a model that another"):
        Server(fake.url, corpus, **settings)
    approx = {"optimizations": Optimizations.APPROX, "reranker": None, "engine_host": "inline"}
    with Server(fake.url, corpus, **approx) as running:
        with pytest.raises(ConfigError, match="kv_reuse 'fusionrag'"):
            running.submit("oneshot", QUESTION, optimizations="approx", kv_reuse="fusionrag")
        with pytest.raises(ConfigError, match="priming needs"):
            running.prime()


def test_a_remote_model_takes_no_cores_and_no_memory(remote: Server) -> None:
    placement = remote.plan.placement
    assert placement.kv_bytes == 0
    assert placement.llm_cpus == ()
    assert remote.generator is None


def test_a_corpus_is_embedded_and_searched_by_another_server(
    fake: FakeEndpoint, documents: Path, tmp_path: Path
) -> None:
    from heddle.app.index_paths import index_paths

    corpus = tmp_path / "corpus"
    index_paths(
        [documents],
        corpus,
        embedder=fake.url,
        on_documents=lambda _: None,
        on_vectors=lambda _: None,
    )
    settings = {"embedder": fake.url, "reranker": fake.url, "engine_host": "inline"}
    with Server(fake.url, corpus, **settings) as server:
        assert server.plan.embedder_name.startswith("remote-fake-model-64-")
        answer = server.app("oneshot").invoke("Frida keeper of Rock 6")
        assert "Rock 6" in {passage.title[-6:] for passage in answer.passages}
        assert server.embed(["a text"]).values.shape == (1, 64)
        with pytest.raises(InputError, match="leave dimensions out"):
            server.embed(["a text"], dimensions=8)
    with pytest.raises(ConfigError, match="was embedded with 'remote-fake-model-64-"):
        Server(fake.url, corpus, engine_host="inline")


def test_an_embedder_that_is_gone_fails_the_request_alone(
    fake: FakeEndpoint, documents: Path, tmp_path: Path
) -> None:
    with FakeEndpoint(dims=64) as own:
        corpus = tmp_path / "corpus"
        quiet = {"on_documents": lambda _: None, "on_vectors": lambda _: None}
        from heddle.app.index_paths import index_paths

        index_paths([documents], corpus, embedder=own.url, **quiet)
        settings = {"embedder": own.url, "reranker": None, "engine_host": "inline"}
        with Server(fake.url, corpus, **settings) as server:
            own.others["/embeddings"] = plain(500, "")
            with pytest.raises(EngineError, match=f"{own.url} failed with an error of its own"):
                server.app("oneshot").invoke(QUESTION)
            del own.others["/embeddings"]
            assert server.app("oneshot").invoke(QUESTION).text == "Ada keeps it."


def ask(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "heddle.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_the_command_says_where_text_goes_and_shows_no_key(
    fake: FakeEndpoint, corpus: Path
) -> None:
    done = ask("ask", corpus, QUESTION, "--model", fake.url, HEDDLE_REMOTE_KEY="very-secret")
    assert "Ada keeps it." in done.stdout
    line = f"questions and passages go to {fake.url} (this machine), model 'fake-model', with the"
    assert line in done.stderr
    assert "very-secret" not in done.stdout + done.stderr
    assert fake.generations[-1].headers["authorization"] == "Bearer very-secret"


def test_the_command_refuses_what_is_not_there_in_one_line(corpus: Path) -> None:
    with socket.socket() as kept:  # so that no other process gets the port
        kept.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{kept.getsockname()[1]}/v1"
        done = ask("ask", corpus, QUESTION, "--model", url)
    assert done.returncode == 2
    refusal = f"error: --model: {url} can't be reached: nothing listens there; is the server"
    assert done.stderr.splitlines() == [f"{refusal} started?"]


def test_without_a_remote_model_no_socket_is_opened(corpus: Path, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(FORBIDDING, encoding="utf-8")
    log = tmp_path / "forbidden.log"
    path = os.pathsep.join([str(hooks), *filter(None, [os.environ.get("PYTHONPATH")])])
    keys = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    hooked = {"PYTHONPATH": path, "FORBIDDEN_LOG": str(log), **keys}
    done = ask("ask", corpus, QUESTION, **hooked)
    assert done.returncode == 0, done.stderr
    assert not log.exists(), log.read_text(encoding="utf-8")
    refused = ask("ask", corpus, QUESTION, "--model", "http://127.0.0.1:9/v1", **hooked)
    assert refused.returncode != 0, "the hook sees a socket where there is one"
    assert log.exists()
