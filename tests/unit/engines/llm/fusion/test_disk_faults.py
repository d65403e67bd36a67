"""A disk tier that is read-only, full, foreign or asked by many: answers stay right."""

import os
import shutil
import threading
from dataclasses import replace

import pytest

from heddle.core.commands import LeaveKv, LoadKv
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import PrefillPayload
from heddle.kv.disk.chunk_files import ChunkFiles
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    TOLERANCE,
    full_logits,
    ids_of,
    rel_diff,
    served,
)
from tests.helpers.tiny_models import prompt, tiny_model

A, B, C = CHUNKS
NEW = prompt(25, 5)
ALL = KvReuse(ReusePolicy.FUSIONRAG, 1.0, always=True)
DISK_BYTES = 1 << 28


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen3")


@pytest.fixture
def folder(model, tmp_path):
    """Where every chunk lies on disk, right behind the prefix."""
    served(model, directory=tmp_path, disk_bytes_max=DISK_BYTES).engine.close()
    return tmp_path


@pytest.fixture
def open_on():
    """Open engines on a folder; closed at the end."""
    opened = []

    def open_one(model, folder, **options):
        opened.append(FusedServing(model, directory=folder, disk_bytes_max=DISK_BYTES, **options))
        return opened[-1]

    yield open_one
    for serving in opened:
        serving.engine.close()


def _files(folder):
    return set(folder.rglob("*.safetensors"))


def _hits(serving, chunks):
    """Ask at ratio 1, compare with full attention, and return the chunks' hits."""
    number = serving.start(segments(PREFIX, chunks, QUESTION), ALL)
    serving.drain_loads([number])
    expected = full_logits(serving.model, ids_of(chunks))
    assert rel_diff(serving.logits[number][0], expected) < TOLERANCE
    serving.store.flush()
    return serving.prefilled[number].fused.chunks


def test_a_read_only_folder_serves_what_it_holds(model, folder, open_on, monkeypatch, caplog):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    serving = open_on(model, folder)
    assert _hits(serving, [A, NEW]) == {"exact": 1, "miss": 1}
    assert _hits(serving, [B, NEW]) == {"exact": 1, "alias": 1}, "host memory has the new one"
    assert len(_files(folder)) == 3
    assert "is not written to disk" in caplog.text


def test_a_full_disk_serves_what_it_holds(model, folder, open_on, monkeypatch, caplog):
    serving = open_on(model, folder)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert _hits(serving, [A, NEW]) == {"exact": 1, "miss": 1}
    serving.drain()  # to tell of it, unless the step that answered was late enough to do so
    told = serving.last
    assert "No space left on device" in told.notes[0]
    assert (told.gauges["chunk_kv_unwritten"], told.gauges["chunk_kv_entries"]) == (1, 4)
    assert _hits(serving, [B, NEW]) == {"exact": 1, "alias": 1}, "host memory has the new one"
    assert len(_files(folder)) == 3
    assert "No space left" in caplog.text


def test_files_of_another_model_are_never_used(folder, open_on, caplog):
    """Neither from their own folder nor where someone has copied them."""
    foreign = _files(folder)
    copies = ChunkFiles(folder, "another model").folder
    copies.mkdir()
    for file in foreign:
        shutil.copy(file, copies)
    serving = open_on(tiny_model("qwen3", seed=1), folder, fingerprint="another model")
    assert serving.store.stats().entries == 0
    assert _hits(serving, [A, B, C]) == {"miss": 3}
    assert "belongs to another model" in caplog.text
    assert foreign < _files(folder), "the other model keeps its own"


def test_eight_prompts_that_wait_for_the_same_chunks_load_each_once(model, folder, open_on):
    serving = open_on(model, folder)
    asked = segments(PREFIX, [C, A, B], QUESTION)
    numbers = [serving.start(asked, ALL) for _ in range(8)]
    serving.drain_loads(numbers)
    stats = serving.store.stats()
    assert (stats.loads, stats.failed_loads) == (3, 0)
    expected = full_logits(model, ids_of([C, A, B]))
    for number in numbers:
        assert rel_diff(serving.logits[number][0], expected) < TOLERANCE
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)


def test_kv_that_is_loaded_ahead_of_its_prompt_is_there_when_it_comes(model, folder, open_on):
    serving = open_on(model, folder)
    woken = threading.Event()
    serving.engine.subscribe(woken.set)
    other = PrefillPayload(segments(PREFIX, [B], QUESTION), reuse=ALL)
    payload = PrefillPayload(segments(PREFIX, [A, NEW], QUESTION), reuse=ALL)
    for asked in (other, payload):
        serving.engine.apply(LoadKv(7, asked))
        assert woken.wait(10), "the load has not ended"
        woken.clear()
        serving.drain()
    assert serving.pinned_chunks == 0
    number = serving.start(payload.segments, ALL, load_id=7)
    serving.drain()
    fused = serving.prefilled[number].fused
    assert fused.chunks == {"exact": 1, "miss": 1}
    assert fused.tokens_from_disk == 0
    assert (fused.loads_used, fused.loads_wasted) == (1, 1), "the first guess had another chunk"
    assert serving.store.stats().used_ahead == 1


def test_what_is_read_for_a_prompt_that_does_not_come_is_let_go(model, folder, open_on):
    serving = open_on(model, folder)
    woken = threading.Event()
    serving.engine.subscribe(woken.set)
    exact = PrefillPayload(segments(PREFIX, [B], QUESTION))
    serving.engine.apply(LoadKv(6, exact))
    serving.engine.apply(
        LoadKv(7, replace(exact, segments=segments(PREFIX, [A], QUESTION), reuse=ALL))
    )
    assert woken.wait(10), "the load has not ended"
    assert serving.store.stats().ahead_bytes > 0
    serving.engine.apply(LeaveKv(7))
    serving.engine.apply(LeaveKv(8))  # never asked for
    assert serving.store.stats().ahead_bytes == 0
    assert serving.store.stats().loads == 1, "nothing is read for an exact prompt"
