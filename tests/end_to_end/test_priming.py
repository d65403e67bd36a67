"""Chunk KV made ahead: what a command or a server leaves on disk, and what prompts take from it."""

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.support.inline_engines import inline_engines
from heddle import ConfigError, EngineError, Server
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory
from heddle.app.priming.plan import PrimingProgress, PrimingStage, searchable_chunks
from heddle.cli.index import NICENESS
from heddle.cli.main import main
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.passages import Passage
from heddle.core.results import FusedKv
from heddle.core.tasks import Optimizations
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.costs.load_choice import LoadChoice
from heddle.engines.llm.reuse import fuser
from heddle.kv.chunk_record import ChunkRecord, ChunkVariant
from heddle.kv.disk.chunk_header import described
from heddle.server.wire import answer_json, encode_json
from tests.helpers.command import Command
from tests.helpers.server_state import eventually, holds_nothing
from tests.helpers.tiny_server import index_documents, write_documents

RAW, PRIMED = PrimingStage.RAW, PrimingStage.PRIMED
QUESTION = "Who is the keeper of Rock 3?"
NEIGHBOURS = 3
FUSIONRAG = KvReuse(ReusePolicy.FUSIONRAG, 0.15, always=True)

pytestmark = pytest.mark.usefixtures("small_kv_cache")


@pytest.fixture(autouse=True)
def niceness(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What commands ask for; this process goes on with other tests, and could not take it back."""
    asked: list[int] = []
    monkeypatch.setattr(os, "nice", asked.append)
    return asked


@pytest.fixture
def own(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus that a test may prime and change."""
    return Path(shutil.copytree(corpus, tmp_path / "own"))


def serve(model: Path, corpus: Path, **settings: object) -> Server:
    base = {"engine_host": "inline", "dtype": "float32", "kv_cache_bytes": 32 << 20}
    return Server(model, corpus, **{**base, "optimizations": Optimizations.APPROX, **settings})


def records(corpus: Path) -> dict[ChunkVariant, list[ChunkRecord]]:
    found: dict[ChunkVariant, list[ChunkRecord]] = {variant: [] for variant in ChunkVariant}
    for path in chunk_kv_directory(corpus).glob("*/*.kv.safetensors"):
        record = described(path).record
        found[record.variant].append(record)
    return found


# --- the commands ----------------------------------------------------------------------------


@pytest.fixture
def loads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have inline engines load all that is stored: what is faster is the machine's affair."""

    def choose(ends_s: Sequence[float], prefill_s: Sequence[float], busy_s: float) -> LoadChoice:
        return LoadChoice(len(ends_s), 0.0, 0.0)

    monkeypatch.setattr(fuser, "choose_loads", choose)


@pytest.mark.usefixtures("inline", "loads_all")
def test_what_index_primes_is_what_ask_finds(
    documents: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    niceness: list[int],
):
    corpus = tmp_path / "corpus"
    index = ["index", str(documents), "--into", str(corpus), "--model", str(model)]
    assert main([*index, "--prime", "--prime-neighbours", str(NEIGHBOURS)]) == 0
    assert niceness == [NICENESS]
    said = "".join(capsys.readouterr())
    assert "10 raw computed now, 10 primed computed now" in said
    assert re.search(r"chunk KV of 10 chunks, \d+ tokens: about \d", said)
    assert re.search(r"computing primed KV: 10/10, [\d.]+ chunks/s, about 0 s left", said)

    # A tiny model's prompts are hardly worth fusing: `always`.
    reuse = "fusionrag,0.15,always"
    ask = ["ask", str(corpus), QUESTION, "--model", str(model), "--kv-reuse", reuse]
    # The documents are of no tenant, so they are everybody's.
    assert main([*ask, "--receipt", "--tenant", "north"]) == 0
    assert "fusionrag at 15%: 1 exact, 4 canonical, 4 primed" in capsys.readouterr().out

    ask[-1] = f"{reuse},nearest"
    assert main([*ask, "--receipt"]) == 0
    assert "4 canonical, 0 primed with the nearest" in capsys.readouterr().out
    assert main([*index, "--prime", "nearest", "--prime-neighbours", str(NEIGHBOURS)]) == 0
    assert "0 raw computed now, 10 primed computed now" in capsys.readouterr().out
    for chosen in (reuse, f"{reuse},nearest"):
        ask[-1] = chosen
        assert main([*ask, "--receipt"]) == 0
        assert "fusionrag at 15%: 1 exact, 4 canonical, 4 primed" in capsys.readouterr().out


def test_what_a_command_computes_it_leaves_behind(start, own: Path, model: Path):
    ask: Command = start("ask", own, QUESTION, "--model", model, "--kv-reuse", "fusionrag")
    assert ask.end() == 0, ask.said
    assert len(records(own)[ChunkVariant.RAW]) == 5, "as many as the prompt has passages"


BARGES = 150


@pytest.fixture(scope="module")
def barges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many short documents, with their corpus beside it."""
    folder = tmp_path_factory.mktemp("barges")
    rows = [
        {"id": f"b{number}", "title": f"Barge {number}", "text": f"Slate for lock {number}."}
        for number in range(BARGES)
    ]
    file = folder / "barges.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    index_documents([file], folder / "corpus")
    return file


def test_a_run_that_was_killed_goes_on(
    start, barges: Path, model: Path, capsys: pytest.CaptureFixture[str]
):
    corpus = barges.parent / "corpus"
    fuse = ["index", str(barges), "--into", str(corpus), "--model", str(model)]
    fuse += ["--prime", "--prime-neighbours", str(NEIGHBOURS)]
    killed: Command = start(*fuse)
    killed.until("computing primed KV: ")
    eventually(lambda: bool(records(corpus)[ChunkVariant.PRIMED]))  # lines of progress are rare
    killed.end(signal.SIGKILL)
    kept = len(records(corpus)[ChunkVariant.PRIMED])
    assert 0 < kept < BARGES

    with inline_engines():
        assert main(fuse) == 0
    said = "".join(capsys.readouterr())
    assert f"0 raw computed now, {BARGES - kept} primed computed now" in said
    primed = records(corpus)[ChunkVariant.PRIMED]
    assert len(primed) == BARGES
    assert {len(record.context) for record in primed} == {NEIGHBOURS}


def test_a_run_that_was_interrupted_goes_on_without_a_trace(
    start, own: Path, model: Path, documents: Path
):
    fuse = ["index", str(documents), "--into", str(own), "--prime", "--prime-neighbours", "1"]
    fuse += ["--model", str(model)]
    command: Command = start(*fuse)
    command.until("computing raw KV: 0")
    assert command.end(signal.SIGINT) == 130
    assert command.said.endswith("stopped\n")
    with inline_engines():
        assert main(fuse) == 0


@pytest.mark.usefixtures("inline")
def test_what_can_not_be_held_is_refused_before_it_begins(
    own: Path, model: Path, documents: Path, capsys: pytest.CaptureFixture[str]
):
    fuse = ["index", str(documents), "--into", str(own), "--prime", "--model", str(model)]
    in_its_place = chunk_kv_directory(own)
    in_its_place.write_text("a file")
    assert main(fuse) == 1
    assert "chunk KV can't be written to" in capsys.readouterr().err
    in_its_place.unlink()
    assert main([*fuse, "--kv-reuse-disk-bytes", "10K"]) == 2
    assert "raise kv_reuse_disk_bytes" in capsys.readouterr().err
    assert main([*fuse, "--prime-neighbours", "0"]) == 2
    assert "(--prime-neighbours) must be at least 1, got 0" in capsys.readouterr().err


# --- a server --------------------------------------------------------------------------------


def test_a_server_primes_beside_its_requests(own: Path, model: Path):
    told: list[PrimingProgress] = []
    with serve(model, own, kv_reuse=FUSIONRAG, reprime=False) as server:
        app = server.app("oneshot")
        questions = [app.submit(QUESTION)]

        def on_progress(progress: PrimingProgress) -> None:
            told.append(progress)
            questions.append(app.submit(QUESTION))

        report = server.prime(NEIGHBOURS, on_progress=on_progress)
        assert report.computed[PRIMED] == 10
        # A question may have stored the raw KV of the chunk that its prompt showed first.
        assert report.computed[RAW] in (9, 10)
        for question in questions:
            assert question.result().passages
        [fused] = app.invoke("Whose lamp is on Rock 9?").receipt.kv_reuse
        assert fused.chunks_primed >= 3  # the first isn't, nor what stands where it stood before
        assert "miss" not in fused.chunks
        assert server.prime(NEIGHBOURS).computed == {RAW: 0, PRIMED: 0}
        assert holds_nothing(server)
    assert [(p.stage, p.chunks_done) for p in told] == [
        (stage, done) for stage in (RAW, PRIMED) for done in range(11)
    ]
    assert told[-1].seconds_left == 0.0


def test_kv_of_weights_of_8_bits_is_kept_apart(own: Path, model: Path):
    def reused(weights: str) -> list[FusedKv]:
        with serve(model, own, kv_reuse=FUSIONRAG, reprime=False, weights=weights) as server:
            app = server.app("oneshot")
            return [app.invoke(QUESTION).receipt.kv_reuse[0] for _ in range(2)]

    first, again = reused("int8")
    assert first.chunks["miss"] == 5
    assert "miss" not in again.chunks
    assert len(records(own)[ChunkVariant.RAW]) == 5
    assert reused("full")[0].chunks["miss"] == 5
    assert len(records(own)[ChunkVariant.RAW]) == 10


def test_what_public_documents_were_primed_with_is_every_tenant_s(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        server.prime(NEIGHBOURS)
        app = server.app("oneshot")
        for tenant in ("north", "south", ""):
            [fused] = app.invoke(QUESTION, tenant=tenant).receipt.kv_reuse
            assert (fused.chunks, fused.chunks_primed) == ({"exact": 1, "canonical": 4}, 4)


def test_what_a_prompt_took_from_the_store_is_told_over_http(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        server.prime(NEIGHBOURS)
        answer = server.app("oneshot").invoke(QUESTION)
        [fused] = json.loads(encode_json(answer_json(answer)))["receipt"]["kv_reuse"]
    assert fused["chunks"] == {"exact": 1, "canonical": 4}
    assert (fused["chunks_primed"], fused["unprimed"]) == (4, [])


def test_kv_in_int8_takes_half_the_disk_and_the_receipt_tells_its_error(own: Path, model: Path):
    sizes = []
    for encoding, error_max in (("bf16", 2**-9), ("int8", 0.02)):
        with serve(model, own, kv_reuse=FUSIONRAG, kv_reuse_encoding=encoding) as server:
            server.prime(NEIGHBOURS)
            [fused] = server.app("oneshot").invoke(QUESTION).receipt.kv_reuse
        assert 0 < fused.stored_error < error_max
        files = list(chunk_kv_directory(own).glob("*/*.kv.safetensors"))
        sizes.append(sum(described(path).nbytes for path in files))
        for path in files:
            path.unlink()
    assert fused.stored_error > 2**-9, "bf16 rounds by less"
    assert sizes[1] < 0.7 * sizes[0]


def test_the_first_neighbour_is_what_precedes_a_chunk_in_its_document(model: Path, tmp_path: Path):
    """The chunks are so unlike that the nearest to each is one of the other document."""
    topics = ("bread", "ships", "snow", "chess")
    for name in ("a", "b"):
        text = "\n\n".join(f"It is about {t}: " + f"{t} and {t} again. " * 35 for t in topics)
        path = tmp_path / "documents" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n\n{text}\n")
    corpus = index_documents([tmp_path / "documents"], tmp_path / "corpus")
    with serve(model, corpus) as server:
        server.prime(1)
    primed = records(corpus)[ChunkVariant.PRIMED]
    store = CorpusStore.open(corpus)
    seen = [store.passages(sorted(record.sources)) for record in primed]
    chunks = {passage.chunk_id: passage for passages in seen for passage in passages}
    pairs = [passages for passages in seen if len(passages) == 2]
    follows = [second for first, second in pairs if first.precedes(second)]
    assert len(follows) == sum(passage.position > 0 for passage in chunks.values()) >= 4


def two_documents(tmp_path: Path, text: str) -> Path:
    """Index two documents that share their words about `{tides}`, but not those about `{ships}`."""
    for name in ("a", "b"):
        path = tmp_path / "documents" / name / "notes.md"
        path.parent.mkdir(parents=True)
        ships, tides = f"Of {name} and its ships. " * 45, "The tide is low. " * 60
        path.write_text(text.format(ships=ships, tides=tides))
    return index_documents([tmp_path / "documents"], tmp_path / "corpus")


def test_it_is_that_also_where_its_text_stands_in_another_document(model: Path, tmp_path: Path):
    corpus = two_documents(tmp_path, "# Notes\n\n{tides}\n\n{ships}\n")
    with serve(model, corpus) as server:
        server.prime(1)
    store = CorpusStore.open(corpus)
    found = [store.passages(record.sources) for record in records(corpus)[ChunkVariant.PRIMED]]
    behind = [(own, near) for own, near in found if own.position > 0]
    assert {own.document_id for own, _ in behind} == {p.document_id for p, _ in found}
    assert all(near.precedes(own) for own, near in behind)


def test_a_text_that_stands_in_two_documents_is_primed_once(model: Path, tmp_path: Path):
    """It is one chunk, with two places: its KV is not computed in each of them."""
    corpus = two_documents(tmp_path, "# Notes\n\n{ships}\n\n{tides}\n")
    texts = [p.render() for p, _ in searchable_chunks(CorpusStore.open(corpus))]
    assert len(set(texts)) == len(texts)
    assert sum("The tide is low." in text for text in texts) == 1
    with serve(model, corpus) as server:
        told: list[PrimingProgress] = []
        first = server.prime(1, on_progress=told.append)
        assert first.computed == {RAW: len(set(texts)), PRIMED: len(set(texts))}
        assert told[-1].chunks_done == told[-1].chunks_total == len(texts)
        assert server.prime(1).computed == {RAW: 0, PRIMED: 0}


def test_a_deleted_document_takes_its_kv_and_what_has_seen_it_along(model: Path, tmp_path: Path):
    documents = write_documents(tmp_path / "documents")
    corpus = index_documents([documents], tmp_path / "corpus")
    with serve(model, corpus) as server:
        server.prime(NEIGHBOURS)
    before = records(corpus)
    (documents / "lighthouse-4.md").unlink()
    index_documents([documents], corpus, prune=True)
    [gone] = CorpusStore.open(corpus).deleted(0).tolist()

    left = records(corpus)
    seen_by = [r for r in before[ChunkVariant.PRIMED] if gone in r.sources]
    assert len(left[ChunkVariant.RAW]) == 9
    assert len(left[ChunkVariant.PRIMED]) == 10 - len(seen_by)
    assert 1 < len(seen_by) < 10
    assert not any(gone in r.sources for kept in left.values() for r in kept)

    with serve(model, corpus) as server:
        report = server.prime(NEIGHBOURS)
    assert report.computed == {RAW: 0, PRIMED: len(seen_by) - 1}


def test_a_running_server_forgets_what_another_process_deletes(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        server.prime(NEIGHBOURS)
        app = server.app("oneshot")
        seen = {c for r in records(own)[ChunkVariant.PRIMED] for c in r.sources[1:]}
        first = next(p for p in app.invoke(QUESTION).passages if p.chunk_id in seen)
        with CorpusStore.open(own) as other:
            other.documents.delete_document(first.document_id)
        answer = app.invoke(QUESTION)
        left = records(own)
        assert not any(
            first.chunk_id in record.sources for kept in left.values() for record in kept
        )
        primed = {record.sources[0] for record in left[ChunkVariant.PRIMED]}
        [fused] = answer.receipt.kv_reuse
        assert fused.chunks_primed == sum(p.chunk_id in primed for p in answer.passages[1:])
        assert sum(fused.chunks.values()) == 5
        assert "miss" not in fused.chunks  # raw KV takes the place of what has seen it


def test_a_changed_document_is_primed_anew(model: Path, tmp_path: Path):
    documents = write_documents(tmp_path / "documents")
    corpus = index_documents([documents], tmp_path / "corpus")
    with serve(model, corpus) as server:
        server.prime(NEIGHBOURS)
    changed = documents / "lighthouse-4.md"
    changed.write_text(changed.read_text(encoding="utf-8").replace("Dora", "Doris"))
    index_documents([documents], corpus)
    with serve(model, corpus) as server:
        report = server.prime(NEIGHBOURS)
        assert report.computed[RAW] == 1
        assert 1 <= report.computed[PRIMED] <= 10
        assert server.prime(NEIGHBOURS).computed == {RAW: 0, PRIMED: 0}
    live = records(corpus)
    assert len(live[ChunkVariant.RAW]) == len(live[ChunkVariant.PRIMED]) == 10


# --- what has lost its primed KV -------------------------------------------------------------


def idles(server: Server) -> bool:
    """Whether all that requests have met without primed KV has been primed."""
    state = server.state()
    assert state.repriming is not None
    assert not state.repriming.problem
    return state.repriming.waiting == 0 and holds_nothing(server)


def fused_of(server: Server, question: str = QUESTION) -> FusedKv:
    [fused] = server.app("oneshot").invoke(question).receipt.kv_reuse
    return fused


def delete_a_neighbour_of(server: Server, met: Passage) -> int:
    """Delete what a chunk is primed with; return the id of the chunk that is gone."""
    assert server.store is not None
    primed = records(server.store.place.work)[ChunkVariant.PRIMED]
    [sources] = [record.sources for record in primed if record.sources[0] == met.chunk_id]
    [neighbour] = server.store.passages(sources[-1:])
    assert server.delete(neighbour.document_id)
    return neighbour.chunk_id


def test_neighbours_of_a_deleted_chunk_are_primed_anew_once_they_are_met(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        server.prime(NEIGHBOURS)
        assert fused_of(server).unprimed == ()
        met = server.app("oneshot").invoke(QUESTION).passages
        gone = delete_a_neighbour_of(server, met[2])
        lost = 9 - len(records(own)[ChunkVariant.PRIMED])
        stale = fused_of(server)
        assert 0 < len(stale.unprimed) <= lost
        assert stale.chunks_primed + len(stale.unprimed) == 4
        assert "miss" not in stale.chunks, "raw KV serves"
        eventually(lambda: idles(server))
        fresh = fused_of(server)
        assert (fresh.unprimed, fresh.chunks_primed) == ((), 4)
        primed = records(own)[ChunkVariant.PRIMED]
        assert len(primed) == 9 - lost + len(stale.unprimed)
        assert not any(gone in record.sources for record in primed)
        shown = server.health()["repriming"]
        told = {"waiting": 0, "primed": len(stale.unprimed), "failed": 0, "dropped": 0}
        assert shown == {**told, "problem": ""}
        # The chunks left are those that no prompt has used; the others are as `prime` makes them.
        computed = server.prime(NEIGHBOURS).computed
        assert computed == {RAW: 0, PRIMED: lost - len(stale.unprimed)}


def test_a_changed_document_is_primed_once_it_is_met(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        server.prime(NEIGHBOURS)
        old, *_ = server.app("oneshot").invoke("Who is the keeper of Rock 4?").passages
        changed = old.text.replace("keeper", "warden")
        assert changed != old.text
        server.upsert(old.document_id, changed, title=old.title)
        for _ in range(3):  # a question for each place in the prompt where it may stand
            for rock in (3, 4, 5):
                fused_of(server, f"Who is the warden of Rock {rock}?")
            eventually(lambda: idles(server))
        primed = records(own)[ChunkVariant.PRIMED]
        assert not any(old.chunk_id in record.sources for record in primed)
        assert fused_of(server, "Who is the warden of Rock 5?").unprimed == ()


def test_what_another_process_has_primed_is_found_once_it_is_missed(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        with serve(model, own) as other:
            other.prime(NEIGHBOURS)
        unprimed: list[int] = []
        for rock in range(1, 11):  # each shows other passages, in another order
            unprimed += fused_of(server, f"Who is the keeper of Rock {rock}?").unprimed
            eventually(lambda: idles(server))
        assert len(unprimed) >= 4
        assert len(set(unprimed)) == len(unprimed), "one was missed again"
        state = server.state().repriming
        assert state is not None
        assert state.primed == 0, "it was there already"


def test_a_server_that_may_not_prime_anew_names_what_it_met_all_the_same(own: Path, model: Path):
    with serve(model, own, kv_reuse=FUSIONRAG, reprime=False) as server:
        server.prime(NEIGHBOURS)
        delete_a_neighbour_of(server, server.app("oneshot").invoke(QUESTION).passages[2])
        before = len(records(own)[ChunkVariant.PRIMED])
        assert fused_of(server).unprimed
        assert (server.state().repriming, server.health()["repriming"]) == (None, {})
        assert len(records(own)[ChunkVariant.PRIMED]) == before
        raw = KvReuse(ReusePolicy.FUSIONRAG, 0.15, primed=False, always=True)
        [fused] = server.app("oneshot").invoke(QUESTION, kv_reuse=raw).receipt.kv_reuse
        assert fused.unprimed == (), "none was wanted"


def test_a_server_that_is_closed_stops_priming(own: Path, model: Path):
    with serve(model, own) as server:
        server.prime(NEIGHBOURS)
    for path in chunk_kv_directory(own).glob("*/*.kv.safetensors"):
        path.unlink()
    with serve(model, own, kv_reuse=FUSIONRAG) as server:
        assert len(fused_of(server).unprimed) == 4
    assert "heddle-repriming" not in [thread.name for thread in threading.enumerate()]


def test_neighbours_have_the_same_owner(corpus: Path, model: Path, tmp_path: Path):
    owners = {"a": ("north", ""), "b": ("north", "letters"), "c": ("south", "")}
    shared = tmp_path / "shared"
    with CorpusStore.open(corpus) as source, CorpusStore.open(shared, create=True) as store:
        stamp = source.embedder
        assert stamp is not None
        store.set_embedder(EmbedderStamp(stamp.model, stamp.dims, stamp.dtype))
        rng = np.random.default_rng(0)
        owner_of = {}
        for number in range(12):
            name = "abc"[number % 3]
            tenant, collection = owners[name]
            document = Document(
                f"{name}{number}",
                f"Page {number}",
                "The tide is low.",
                name,
                tenant=tenant,
                collection=collection,
            )
            store.documents.put_document(document, chunk_document(document, Chunking()))
            [chunk] = store.documents.pending_chunks(1)
            owner_of[chunk.chunk_id] = name
            vector = rng.normal(size=(1, stamp.dims)).astype(np.float32)
            store.store_vectors([chunk.chunk_id], vector / np.linalg.norm(vector))
    with serve(model, shared) as server:
        assert server.prime(2).computed == {RAW: 12, PRIMED: 12}
    primed = records(shared)[ChunkVariant.PRIMED]
    assert len(primed) == 12
    for record in primed:
        assert len({owner_of[source] for source in record.sources}) == 1
        assert len(record.context) == 2


def test_a_text_of_two_collections_is_primed_in_each_and_used_from_its_own(own: Path, model: Path):
    with serve(model, own, kv_reuse="fusionrag,0.15,always") as server:
        assert server.store is not None
        for name in ("a", "b"):
            of = {"collection": name, "metadata": {"of": name}}
            server.upsert(f"{name}1", f"The lamp room of {name} is shut.", title=name, **of)
            server.upsert(f"{name}2", "Wend has a bell of bronze.", title="Wend", **of)
        server.prime(2)
        passages = server.store.passages(server.store.vector_ids())
        collection_of = {passage.chunk_id: passage.collection for passage in passages}
        primed = records(own)[ChunkVariant.PRIMED]
        assert len(primed) == len(passages)
        for record in primed:
            assert len({collection_of[source] for source in record.sources}) == 1
        ask = server.app("oneshot").invoke
        answer = ask("Which bell has Wend?", where={"of": "b"}, topk=2, max_tokens=2)
        [fused] = answer.receipt.kv_reuse
        assert (fused.chunks_primed, fused.chunks.get("miss", 0)) == (1, 0)


def test_a_server_that_can_not_prime_says_why(own: Path, model: Path):
    refusals: dict[str, dict[str, object]] = {
        "optimizations=Optimizations.APPROX": {"optimizations": Optimizations.EXACT},
        "kv_reuse_memory_bytes is 0": {"kv_reuse_memory_bytes": 0},
        "more than kv_reuse_memory_bytes": {"kv_reuse_memory_bytes": 1000},
        r"raise kv_reuse_disk_bytes": {"kv_reuse_disk_bytes": 0},
    }
    for message, settings in refusals.items():
        with serve(model, own, **settings) as server, pytest.raises(ConfigError, match=message):
            server.prime(NEIGHBOURS)


def test_a_disk_that_fills_up_ends_the_run_and_keeps_what_is_stored(
    own: Path, model: Path, monkeypatch: pytest.MonkeyPatch
):
    fsync, calls = os.fsync, iter(range(100))

    def full(descriptor: int) -> None:
        if next(calls) >= 8:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    with serve(model, own) as server:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(EngineError, match="No space left on device"):
            server.prime(NEIGHBOURS)
        monkeypatch.undo()
    kept = len(records(own)[ChunkVariant.RAW])
    assert 0 < kept < 10
    with serve(model, own) as server:
        assert server.prime(NEIGHBOURS).computed == {RAW: 10 - kept, PRIMED: 10}


@pytest.fixture(autouse=True)
def _no_leftovers(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.glob("**/*.tmp"))


def test_a_chunk_longer_than_the_context_is_counted_and_left_out(own: Path, model: Path):
    with serve(model, own, context_tokens_max=40) as server:
        report = server.prime(NEIGHBOURS)
    assert report.too_long == 10
    assert report.computed == {RAW: 0, PRIMED: 0}
