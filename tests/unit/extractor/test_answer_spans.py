from extractor_training.answer_spans import answer_spans, holds_answer


def test_all_places_of_all_answers_are_found_ignoring_case():
    text = "Oslo, and again OSLO; 1978"
    assert answer_spans(text, ["oslo", "1978"]) == [(0, 4), (16, 20), (22, 26)]


def test_an_answer_inside_a_longer_word_is_none():
    assert not holds_answer("a catalogue of 1978s", ["cat", "1978"])
    assert holds_answer("a cat, in (1978)", ["cat"])


def test_an_empty_answer_stands_nowhere():
    assert answer_spans("anything", ["", " "]) == []


def test_letters_that_change_length_with_case_do_not_shift_spans():
    text = "İstanbul is Oslo"
    assert [text[start:end] for start, end in answer_spans(text, ["Oslo"])] in ([], ["Oslo"])
