import itertools

from extractor_training.batches import pack
from extractor_training.rows import Passage
from extractor_training.windows import CLS, SEP, token_spans, windows_of

TEXT = "The bridge opened in 1978 after nine years of work."


def test_a_short_passage_is_one_window_of_question_title_and_text(tokenizer):
    (window,) = windows_of(tokenizer, "When did it open?", Passage("p", "Bridge", TEXT))
    assert window.ids[0] == CLS
    assert window.ids[window.n_question + 1] == SEP
    assert window.ids[-1] == SEP
    assert len(window.ids) == window.first + len(window.offsets) + 1
    assert window.types.count(0) == window.n_question + 2
    assert len(window.types) == len(window.ids)


def test_an_answer_is_labelled_by_its_first_and_last_token(tokenizer):
    (window,) = windows_of(tokenizer, "How long?", Passage("p", "", TEXT))
    start = TEXT.index("nine years")
    ((first, last),) = token_spans(window, ((start, start + 10),), longest=20)
    assert TEXT[window.offsets[first][0] : window.offsets[last][1]] == "nine years"


def test_an_answer_that_is_too_long_is_not_labelled(tokenizer):
    (window,) = windows_of(tokenizer, "What?", Passage("p", "", TEXT))
    assert token_spans(window, ((0, len(TEXT)),), longest=5) == []


def test_windows_of_a_long_passage_cover_it_and_overlap(tokenizer):
    text = " ".join(f"word{n}" for n in range(400))
    cut = windows_of(tokenizer, "What?", Passage("p", "Title", text), longest=200)
    assert all(len(window.ids) <= 200 for window in cut)
    covered = {offset for window in cut for offset in window.offsets}
    assert covered == set(tokenizer.encode(text, add_special_tokens=False).offsets)
    assert all(a.offsets[-1] in b.offsets for a, b in itertools.pairwise(cut))


def test_an_empty_passage_is_a_window_without_tokens_of_its_own(tokenizer):
    (window,) = windows_of(tokenizer, "What?", Passage("p", "Title", ""))
    assert window.offsets == []


def test_packed_windows_lie_one_behind_the_other(tokenizer):
    cut = [windows_of(tokenizer, q, Passage("p", "", TEXT))[0] for q in ("When?", "How long now?")]
    packed = pack(cut)
    assert packed.lengths == [len(window.ids) for window in cut]
    assert packed.ids.tolist() == cut[0].ids + cut[1].ids
    assert packed.positions.tolist() == [*range(packed.lengths[0]), *range(packed.lengths[1])]
