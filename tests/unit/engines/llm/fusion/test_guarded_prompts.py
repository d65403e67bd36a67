"""Short prompts are computed whole and long ones fused, by the engine's own measured times."""

import pytest

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.three_chunks import TOLERANCE, full_logits, rel_diff
from tests.helpers.tiny_models import prompt, tiny_model

FUSED = KvReuse(ReusePolicy.FUSIONRAG, 0.15)
PREFIX, CHUNKS = prompt(20, 0), [prompt(60, number) for number in range(1, 9)]
STEP_S, TOKEN_S = 0.01, 0.0001


class Stepped:
    """A clock that a step moves on: by a fixed time, and by one for each of its tokens."""

    def __init__(self):
        self.seconds = 0.0

    def now_s(self):
        return self.seconds


def timed():
    """Return an engine that knows all of CHUNKS, and what its steps and its storing take."""
    clock = Stepped()
    serving = FusedServing(tiny_model("llama"), guarded=True, clock=clock)
    run, export_chunk = serving.worker.run, serving.worker.export_chunk

    def timed_run(batch):
        clock.seconds += STEP_S + TOKEN_S * batch.tokens
        return run(batch)

    def timed_export(slots, record):
        clock.seconds += 0.2 * TOKEN_S * len(slots)
        return export_chunk(slots, record)

    serving.worker.run, serving.worker.export_chunk = timed_run, timed_export
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [chunk], prompt(5, 9)), KvReuse(), new_tokens=3)
    always = KvReuse(ReusePolicy.FULL_REUSE, 0.0, always=True)
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [chunk], prompt(5, 10)), always)
    return serving


@pytest.fixture(scope="module")
def serving():
    return timed()


def asked(serving, chunks, seed):
    """Return a prompt's receipt, and whether it was answered as by full attention."""
    shown = segments(PREFIX, chunks, prompt(12, seed))
    number = serving.start(shown, FUSED)
    serving.drain()
    ids = [token for segment in shown for token in segment.token_ids]
    expected = full_logits(serving.model, ids)
    is_exact = rel_diff(serving.logits[number][0], expected) < TOLERANCE
    return serving.prefilled[number].fused, is_exact


def test_short_prompts_are_computed_whole_and_long_ones_fused(serving):
    before = serving.fuser.gauges()
    short, is_exact = asked(serving, CHUNKS[1::-1], 20)
    assert is_exact
    assert "with stored KV of all of its chunks" in short.computed_whole
    assert (short.policy, short.ratio, short.tokens_recomputed) == ("fusionrag", 1.0, 0)
    long, is_exact = asked(serving, CHUNKS[::-1], 21)
    assert not is_exact
    assert long.computed_whole == ""
    assert long.tokens_recomputed > 0
    after = serving.fuser.gauges()
    counts = {name: after[name] - before[name] for name in ("chunk_kv_fused", "chunk_kv_whole")}
    assert counts == {"chunk_kv_fused": 1, "chunk_kv_whole": 1}
    assert serving.pinned_chunks == serving.held_pages == 0


def test_a_long_prompt_of_new_chunks_stores_them_and_the_next_one_is_fused(serving):
    new = [prompt(60, number) for number in range(30, 37)]
    first, is_exact = asked(serving, [CHUNKS[0], *new], 22)
    assert is_exact
    assert "with stored KV of 1 of its 8 chunks" in first.computed_whole
    assert first.chunks == {"exact": 1, "miss": 7}
    again, _ = asked(serving, [*new, CHUNKS[0]], 23)
    assert again.computed_whole == ""
    assert again.tokens_recomputed > 0


def test_new_chunks_that_hardly_come_again_are_stored_the_second_time():
    serving = timed()
    prompts = [[prompt(60, 100 + 8 * n + i) for i in range(8)] for n in range(9)]
    for number, chunks in enumerate(prompts):
        asked(serving, chunks, number)
    assert serving.store.stats().entries == 64  # CHUNKS, and those of the first seven prompts
    asked(serving, prompts[-1][::-1], 50)  # in another order than the prefix cache has them
    assert serving.store.stats().entries == 72
