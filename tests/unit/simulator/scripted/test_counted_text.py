from heddle.core.passages import Passage
from heddle.simulator.scripted.counted_text import (
    CountingTokenizer,
    WrittenDecoder,
    next_written,
    token_count,
)

TOKENIZER = CountingTokenizer(4096)


def written(tail, count):
    ids = []
    token = tail
    for _ in range(count):
        token = next_written(token)
        ids.append(token)
    return WrittenDecoder().stream(()).push(ids)[0]


def test_a_word_stands_for_as_many_tokens_as_it_says() -> None:
    assert token_count("a*12 b c*3") == 16
    assert len(TOKENIZER.encode_slot("a*12 b c*3")) == 16


def test_equal_texts_have_equal_tokens_and_others_have_others() -> None:
    encode = TOKENIZER.encode_slot
    assert encode("c1*40") == encode("c1*40")
    assert set(encode("c1*40")).isdisjoint(encode("c2*40"))


def test_a_prompt_has_a_segment_for_each_part_between_head_and_tail() -> None:
    parts = ["answer*8", Passage(1, "document", "", "c1*90"), None, "q1*12"]
    segments = TOKENIZER.encode_prompt(parts)
    lengths = [None if s.token_ids is None else len(s.token_ids) for s in segments]
    assert lengths == [1, 8, 90, None, 12, 1]


def test_a_mark_ends_lines_and_is_no_token() -> None:
    (_, text, tail) = TOKENIZER.encode_prompt(["lines:3 list*5"])
    assert len(text.token_ids) == 5
    assert written(tail.token_ids[0], 7) == "w0 w1 \nw3 w4 \nw6 "


def test_without_a_mark_a_text_is_one_line() -> None:
    tail = TOKENIZER.encode_prompt(["answer*5"])[-1]
    assert written(tail.token_ids[0], 4) == "w0 w1 w2 w3 "
