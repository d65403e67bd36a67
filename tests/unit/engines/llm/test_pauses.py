"""Decodes that pause and go on from another prompt: no seam in tokens, text, draws or ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from heddle.core.commands import Amend, AmendMode, Cancel, Release
from heddle.core.frames import Cancelled, Failed
from heddle.core.payloads import Pause
from heddle.core.results import FinishReason, KvHandle
from heddle.engines.llm.text.text_stream import TextDecoder
from tests.unit.engines.llm.fake_worker import EOS, Lane, greedy

PROMPT = tuple(range(10, 20))
MORE = (30, 31, 32)


def in_rounds(lane, pauses, prompt=PROMPT, max_tokens=12, **sampling):
    """Decode in rounds that end at these pauses, the last at none; return all results."""
    results, written = [], ()
    for number, pause in enumerate([*pauses, Pause()]):
        task = 100 + 2 * number
        lane.prefill(task, prompt, written)
        lane.decode(task + 1, task, max_tokens, pause=pause, continues=len(written), **sampling)
        lane.drain()
        lane.engine.apply(Release(KvHandle("llm", 3, task)))
        results.append(lane.result(task + 1))
        written = results[-1].token_ids
        if not results[-1].finish_reason.is_pause:
            break
    return results


def whole(lane, prompt=PROMPT, max_tokens=12, **sampling):
    """Decode at once."""
    lane.prefill(1, prompt)
    lane.decode(2, 1, max_tokens, **sampling)
    lane.drain()
    return lane.result(2)


def streamed(lane):
    """Return the text and the tokens of all rounds' Progress, in order."""
    parts = [p for task in sorted(lane.events) if task > 100 for p in lane.progress(task)]
    return "".join(p.text for p in parts), tuple(t for p in parts for t in p.token_ids)


def test_it_pauses_after_so_many_tokens_and_goes_on():
    lane = Lane()
    results = in_rounds(lane, [Pause(after=3), Pause(after=4)])
    assert [r.finish_reason for r in results] == [
        FinishReason.INTERVAL,
        FinishReason.INTERVAL,
        FinishReason.LENGTH,
    ]
    assert [len(r.token_ids) for r in results] == [3, 7, 12]
    assert results[-1].token_ids == greedy(PROMPT, 12)
    assert results[-1].text == whole(Lane()).text
    assert streamed(lane) == (results[-1].text, results[-1].token_ids)


@given(
    st.lists(st.integers(1, 4), max_size=5),
    st.sampled_from([{}, {"temperature": 1.0, "seed": 7}, {"temperature": 0.8, "top_p": 0.9}]),
    st.integers(1, 12),
    st.sampled_from([1, 2, 3]),
)
def test_rounds_write_what_one_decode_writes(intervals, sampling, max_tokens, report_every):
    lane = Lane()
    pauses = [Pause(after=n) for n in intervals]
    results = in_rounds(lane, pauses, max_tokens=max_tokens, report_every=report_every, **sampling)
    assert results[-1].token_ids == whole(Lane(), max_tokens=max_tokens, **sampling).token_ids
    assert streamed(lane) == (results[-1].text, results[-1].token_ids)


def test_what_was_computed_is_not_computed_again():
    lane = Lane(page_size=4)
    in_rounds(lane, [Pause(after=6)])
    # 10 + 6 tokens: four whole pages, of which the KV of the sixth token isn't computed yet.
    assert lane.result(102).tokens == 16
    assert lane.result(102).tokens_reused == 12


def test_a_prompt_that_shows_more_is_continued_in_its_own_way():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, pause=Pause(after=3))
    lane.drain()
    written = lane.result(2).token_ids
    lane.prefill(3, PROMPT, MORE, written)
    lane.decode(4, 3, max_tokens=8, continues=3)
    lane.drain()
    assert lane.result(4).token_ids == written + greedy((*PROMPT, *MORE, *written), 5)


def test_it_pauses_before_a_token_that_it_isn_t_sure_of():
    ids = greedy(PROMPT, 12)
    lane = Lane()
    lane.worker.unsure = {(*PROMPT, *ids[:4]): 0.2, (*PROMPT, *ids[:5]): 0.29}
    results = in_rounds(lane, [Pause(below=0.3)] * 5)
    assert [len(r.token_ids) for r in results] == [4, 5, 12]
    assert results[0].finish_reason is FinishReason.LOW_CONFIDENCE
    assert results[-1].token_ids == ids
    assert streamed(lane) == (results[-1].text, ids)


def test_the_first_token_of_a_round_is_taken_however_unsure():
    ids = greedy(PROMPT, 3)
    lane = Lane()
    lane.worker.unsure = {(*PROMPT, *ids[:n]): 0.01 for n in range(3)}
    results = in_rounds(lane, [Pause(below=0.5)] * 5, max_tokens=3)
    assert [len(r.token_ids) for r in results] == [1, 2, 3]
    assert results[-1].finish_reason is FinishReason.LENGTH


def test_an_end_that_it_isn_t_sure_of_is_no_end_yet():
    (first,) = greedy(PROMPT, 1)
    lane = Lane()
    lane.worker.next_ids = {(*PROMPT, first): EOS}
    lane.worker.unsure = {(*PROMPT, first): 0.1}
    results = in_rounds(lane, [Pause(below=0.5)] * 2)
    assert [r.finish_reason for r in results] == [FinishReason.LOW_CONFIDENCE, FinishReason.STOP]
    assert results[-1].token_ids == (first,)


def test_a_probability_at_the_bound_is_enough():
    lane = Lane()
    lane.worker.unsure = {(*PROMPT, *greedy(PROMPT, 1)): 0.5}
    (result,) = in_rounds(lane, [Pause(below=0.5)])
    assert result.finish_reason is FinishReason.LENGTH


def test_an_end_comes_before_a_pause():
    first, second = greedy(PROMPT, 2)
    lane = Lane()
    (result,) = in_rounds(lane, [Pause(after=2)], max_tokens=2)
    assert result.finish_reason is FinishReason.LENGTH
    lane = Lane()
    (result,) = in_rounds(lane, [Pause(after=2)], stop=(f"<{second}>",))
    assert (result.finish_reason, result.text) == (FinishReason.STOP, f"<{first}>")


def test_a_pause_tells_how_much_room_is_left():
    lane = Lane(context=20)
    results = in_rounds(lane, [Pause(after=3)])
    assert results[0].tokens_left == 20 - 10 - 3
    assert results[-1].tokens_left == 0
    assert results[-1].finish_reason is FinishReason.LENGTH


def test_unlike_decodes_share_a_step():
    ids = greedy(PROMPT, 6)
    lane = Lane()
    lane.worker.unsure = {(*PROMPT, *ids[:2]): 0.2}
    for task, pause in ((1, Pause()), (3, Pause(below=0.3)), (5, Pause(after=4))):
        lane.prefill(task, PROMPT)
        lane.decode(task + 1, task, max_tokens=6, pause=pause)
    lane.drain()
    assert [lane.result(task).token_ids for task in (2, 4, 6)] == [ids, ids[:2], ids[:4]]


@pytest.mark.parametrize("steps", range(5))
def test_a_round_that_is_cancelled_gives_its_pages_back(steps):
    lane = Lane()
    lane.prefill(1, PROMPT, MORE)
    lane.decode(2, 1, pause=Pause(after=8), continues=3)
    for _ in range(steps):
        lane.step()
    lane.engine.apply(Cancel(2))
    lane.engine.apply(Cancel(1))
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    lane.drain()
    assert isinstance(lane.end(2), Cancelled)
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_preempted_round_writes_the_same():
    prompts = [tuple(range(3 + n, 9 + n)) for n in range(4)]
    lane = Lane(pages=10, context=32)
    for n, prompt in enumerate(prompts):
        lane.prefill(2 * n, prompt, greedy(prompt, 3))
        lane.decode(2 * n + 1, 2 * n, max_tokens=17, continues=3)
    lane.drain()
    results = [lane.result(2 * n + 1) for n in range(4)]
    assert [r.token_ids for r in results] == [greedy(prompt, 17) for prompt in prompts]
    assert sum(r.preemptions for r in results) > 0, "nothing was preempted: a weak test"


@pytest.mark.parametrize(
    ("pause", "words"),
    [
        (Pause(after=0), "pause.after is 0; it must be at least 1"),
        (Pause(below=0.0), "pause.below is 0.0; it must be in (0, 1)"),
        (Pause(below=1.0), "pause.below is 1.0"),
    ],
)
def test_a_wrong_pause_is_refused(pause, words):
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, pause=pause)
    lane.drain()
    end = lane.end(2)
    assert isinstance(end, Failed)
    assert end.is_input
    assert words in end.message


@pytest.mark.parametrize("shown", range(4))
def test_a_round_that_goes_on_pauses_where_it_would_have(shown):
    ids = greedy(PROMPT, 8)
    for pause in (Pause(after=4), Pause(below=0.3)):
        lane = Lane()
        # Unsure of the first token of the round and of the fifth: the first is taken all the same.
        lane.worker.unsure = {(*PROMPT, *ids[:2]): 0.2, (*PROMPT, *ids[:6]): 0.2}
        lane.prefill(1, PROMPT, tuple(ids[: 2 + shown]))
        lane.decode(2, 1, max_tokens=8, pause=pause, continues=2 + shown, resumes=shown)
        lane.drain()
        assert lane.result(2).token_ids == ids[:6]


@pytest.mark.parametrize("resumes", [-1, 4])
def test_more_than_was_written_can_t_be_resumed(resumes):
    lane = Lane()
    lane.prefill(1, PROMPT, MORE)
    lane.decode(2, 1, continues=3, resumes=resumes)
    lane.drain()
    assert "it must be in [0, 3] (continues)" in lane.end(2).message


def test_what_isn_t_known_can_t_be_continued():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, continues=11)
    lane.prefill(3, PROMPT, None)
    lane.decode(4, 3, continues=1)
    lane.step()
    assert "continues is 11; 10 tokens of the prompt are known" in lane.end(2).message
    assert "continues is 1; 0 tokens" in lane.end(4).message


def test_a_prompt_under_a_continued_answer_can_t_be_amended():
    lane = Lane()
    lane.prefill(1, PROMPT, MORE)
    lane.decode(2, 1, continues=3)
    lane.engine.apply(Amend(1, 0, (5,), AmendMode.REPLACE))
    lane.drain()
    assert "amended after its first token" in lane.end(2).message


# -- text across the seam, with a real decoder -----------------------------------------------------


@pytest.fixture(scope="module")
def bytes_tokenizer(tmp_path_factory):
    """Every byte is a token, so a character may spread over four of them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=260,
        special_tokens=["<a>", "<b>", "<c>", "<d>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([], trainer)
    path = tmp_path_factory.mktemp("bytes") / "tokenizer.json"
    tokenizer.save(str(path))
    return tokenizer, TextDecoder(path)


def spoken(bytes_tokenizer, text, pauses, **sampling):
    """Have the model say a text in rounds; return its stream and its results."""
    tokenizer, decoder = bytes_tokenizer
    ids = tuple(tokenizer.encode(text).ids)
    lane = Lane(pages=64, decoder=decoder)
    lane.worker.next_ids = {(*PROMPT, *ids[:n]): token for n, token in enumerate(ids)}
    lane.worker.next_ids[(*PROMPT, *ids)] = EOS
    results = in_rounds(lane, pauses, max_tokens=100, **sampling)
    return streamed(lane)[0], results


@given(
    text=st.text(st.sampled_from("ab .é語🙂\n"), min_size=1, max_size=12),
    intervals=st.lists(st.integers(1, 6), max_size=8),
)
def test_no_character_is_broken_or_lost(bytes_tokenizer, text, intervals):
    told, results = spoken(bytes_tokenizer, text, [Pause(after=n) for n in intervals])
    assert told == results[-1].text == text


@pytest.mark.parametrize("interval", range(1, 9))
def test_a_stop_string_is_met_across_the_seam(bytes_tokenizer, interval):
    told, results = spoken(
        bytes_tokenizer, "so it is. END. more", [Pause(after=interval)] * 20, stop=("END.",)
    )
    assert told == results[-1].text == "so it is. "
    assert results[-1].finish_reason is FinishReason.STOP


def test_a_pause_shows_no_text_that_may_yet_be_a_stop_string(bytes_tokenizer):
    told, results = spoken(bytes_tokenizer, "so EN", [Pause(after=5)], stop=("END",))
    assert [r.text for r in results] == ["so ", "so EN"]
    assert told == "so EN"
