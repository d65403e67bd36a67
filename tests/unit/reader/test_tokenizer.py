import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training import tokenizer as reader_tokenizer
from training.phases import PHASES
from training.prompts import SPECIAL_TOKENS, render_passage, user_turn


@pytest.fixture(scope="module")
def tokenizer():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_tokenizer, "_TEXTS", 40)
        patch.setattr(reader_tokenizer, "VOCABULARY_SIZE", 600)
        return reader_tokenizer.train_tokenizer(PHASES[0].recipe, seed=1)


_PLAIN = st.text(st.characters(exclude_categories=("Cs",)), max_size=60).filter(
    lambda text: not any(token in text for token in SPECIAL_TOKENS)
)
_SPACED = st.lists(st.sampled_from([" ", "  ", "\n", "\n\n", "\t", "a", "1937", "é"])).map("".join)


@settings(max_examples=200)
@given(text=_PLAIN | _SPACED)
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@settings(max_examples=100)
@given(title=_PLAIN, text=_PLAIN)
def test_a_prompt_cut_after_a_passage_tokenizes_like_the_whole(tokenizer, title, text):
    passage = render_passage(title, text)
    whole = tokenizer.encode(passage + "Question: who?").ids
    assert tokenizer.encode(passage).ids + tokenizer.encode("Question: who?").ids == whole


@pytest.mark.parametrize("name", ["Lisbon", "Orvane Drexel", "Quix", "1937", "the Velm Bridge"])
def test_a_name_has_the_same_pieces_in_a_sentence_a_title_and_a_reply(tokenizer, name):
    alone = tokenizer.encode(name).ids
    sentence = tokenizer.encode(f"She saw {name}.").ids
    reply = tokenizer.encode(user_turn("Q") + name + "<|end|>").ids
    assert sentence[-1 - len(alone) : -1] == alone
    assert reply[-1 - len(alone) : -1] == alone


def test_special_tokens_are_single_tokens(tokenizer):
    for token in SPECIAL_TOKENS:
        assert tokenizer.encode(token).ids == [tokenizer.token_to_id(token)]


def test_the_same_seed_trains_the_same_tokenizer(tokenizer, monkeypatch):
    monkeypatch.setattr(reader_tokenizer, "_TEXTS", 40)
    monkeypatch.setattr(reader_tokenizer, "VOCABULARY_SIZE", 600)
    again = reader_tokenizer.train_tokenizer(PHASES[0].recipe, seed=1)
    assert again.to_str() == tokenizer.to_str()
    other = reader_tokenizer.train_tokenizer(dataclasses.replace(PHASES[0].recipe), seed=2)
    assert other.to_str() != tokenizer.to_str()
