"""What takes longer to load than to prefill is prefilled, and the receipt says so."""

import logging
from dataclasses import replace

import pytest

from heddle.core.kv_reuse import AUTO, KvReuse, ReusePolicy
from heddle.engines.llm.reuse.guard import FusionGuard
from heddle.kv.chunk_directory import Tier
from heddle.kv.chunk_store import ChunkStore
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.three_chunks import TOLERANCE, ThreeChunks, full_logits, rel_diff, served
from tests.helpers.tiny_models import prompt, tiny_model

FUSED = KvReuse(ReusePolicy.FUSIONRAG, 0.15)
NEVER_S = 1e9


def foretelling(*ends_s):
    """Return a store that foretells these ends, in turn, for the chunks that it has on disk."""

    class Foretelling(ChunkStore):
        def predicted_load_s(self, found):
            ends = iter(ends_s)
            return [0.0 if one.tier is Tier.HOST else next(ends) for one in found]

    return Foretelling


class FusesAll(FusionGuard):
    """Has every prompt fused that finds something, so that loads alone are chosen."""

    def against_all(self, prompt):
        return ""

    def against(self, prompt, kinds, wait_s):
        return ""


def choosing(model, **options):
    """Return an engine that chooses what to load."""
    serving = FusedServing(model, disk_bytes_max=1 << 28, guarded=True, **options)
    serving.fuser.guard = FusesAll()
    return serving


@pytest.fixture(scope="module")
def case():
    return ThreeChunks(tiny_model("llama"))


@pytest.fixture
def folder(case, tmp_path):
    """Where all three chunks lie on disk, right behind the prefix."""
    served(case.model, directory=tmp_path, disk_bytes_max=1 << 28).engine.close()
    return tmp_path


@pytest.fixture
def ask(case, folder):
    """Ask once with a store that foretells these ends; returns logits and receipt."""

    def ask(*ends_s, reuse=FUSED):
        serving = choosing(case.model, directory=folder, store_class=foretelling(*ends_s))
        number = serving.start(case.segments, reuse)
        serving.drain_loads([number])
        serving.engine.close()
        assert serving.pinned_chunks == serving.held_pages == 0
        return serving.logits[number][0], serving.prefilled[number].fused

    return ask


def test_a_fast_disk_loads_everything(ask):
    _, fused = ask(0.0, 0.0, 0.0)
    assert "miss" not in fused.chunks
    assert fused.tokens_from_disk > 0
    assert fused.notes == ()


def test_a_slow_disk_is_not_asked(ask, case, caplog):
    with caplog.at_level(logging.INFO, "heddle"):
        logits, fused = ask(NEVER_S, 2 * NEVER_S, 3 * NEVER_S)
    assert fused.chunks == {"miss": 3}
    assert fused.tokens_from_disk == 0
    [note] = fused.notes
    assert note.startswith("3 of 3 stored chunks were prefilled, not loaded")
    assert "after 3e+09 s with all of them loaded" in note
    assert caplog.text.count(note) == 1
    assert rel_diff(logits, full_logits(case.model, case.ids)) < TOLERANCE


def test_behind_a_full_queue_later_chunks_are_prefilled(ask, case):
    _, fused = ask(0.0, NEVER_S, 2 * NEVER_S)
    assert fused.chunks["miss"] == 2
    assert fused.tokens_from_disk == len(case.chunks[0])
    assert fused.notes[0].startswith("2 of 3 stored chunks were prefilled")


def test_what_is_on_its_way_already_is_taken_before_what_stands_first(ask, case):
    _, fused = ask(NEVER_S, NEVER_S, 0.0)
    assert fused.tokens_from_disk == len(case.chunks[2])
    assert fused.chunks["miss"] == 2


def test_who_reuses_always_waits_for_a_slow_disk(ask):
    _, fused = ask(NEVER_S, 2 * NEVER_S, 3 * NEVER_S, reuse=replace(FUSED, always=True))
    assert "miss" not in fused.chunks
    assert fused.notes == ()


@pytest.mark.parametrize("ratio", [1.0, AUTO])
def test_a_chunk_is_worth_what_is_not_computed_anew(ask, ratio):
    """At ratio 1 a load saves nothing; else a millionth of a second is always worth it."""
    _, fused = ask(1e-6, 1e-6, 1e-6, reuse=KvReuse(ReusePolicy.FUSIONRAG, ratio))
    assert ("miss" in fused.chunks) == (ratio == 1.0)


def test_behind_others_there_is_time_to_load(case, folder):
    """Shorter prompts keep the engine busy for longer than the loads take."""
    fused = []
    for others in (0, 12):
        serving = choosing(
            case.model,
            directory=folder,
            store_class=foretelling(3, 3, 3),
            prior_s={"prefill_tokens": 0.01},
        )
        for _ in range(others):
            serving.start(segments(prompt(20, 6), [], prompt(60, 7)), KvReuse())
        number = serving.start(case.segments, FUSED)
        serving.drain_loads([number])
        serving.engine.close()
        fused.append(serving.prefilled[number].fused)
    assert fused[0].chunks == {"miss": 3}, "105 tokens take a second, a load three"
    assert "miss" not in fused[1].chunks


def test_a_full_host_memory_is_said(case, folder):
    serving = FusedServing(
        case.model, directory=folder, disk_bytes_max=1 << 28, host_bytes_max=1, loads_max=1
    )
    number = serving.start(case.segments, FUSED)
    serving.drain()
    serving.engine.close()
    fused = serving.prefilled[number].fused
    assert fused.chunks == {"miss": 3}
    assert fused.notes[0].startswith("3 of 3 stored chunks were prefilled: host memory is full")


def test_what_is_in_host_memory_is_used_whatever_the_disk_takes(case, tmp_path):
    store = {"directory": tmp_path, "disk_bytes_max": 1 << 28, "store_class": foretelling()}
    serving = served(case.model, **store)
    serving.ask(case.segments, FUSED)
    fused = next(reversed(serving.prefilled.values())).fused
    serving.engine.close()
    assert "miss" not in fused.chunks
    assert fused.notes == ()
