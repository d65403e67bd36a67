"""No text has fewer tokens than the bound says, and what can't fit is seen by its bytes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from heddle.engines.llm.text.token_bound import TokenBound
from tests.helpers.trained_tokenizers import train

FAMILIES = ["gpt2", "qwen", "hidden_line_space", "llama2_legacy", "metaspace_never"]
texts = st.text(
    st.one_of(st.characters(exclude_categories=("Cs",)), st.sampled_from(" \n▁aáe\u0301\u212b"))
)


def bound_of(tokenizer: Tokenizer) -> TokenBound | None:
    return TokenBound.of(json.loads(tokenizer.to_str()), tokenizer)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, derandomize=True)
@given(text=texts, times=st.integers(1, 50))
def test_no_text_has_fewer_tokens(family: str, text: str, times: int) -> None:
    tokenizer = TOKENIZERS[family]
    bound = BOUNDS[family]
    assert bound is not None
    encoded = tokenizer.encode(text * times, add_special_tokens=False)
    assert bound.tokens_min(text * times) <= len(encoded.ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_no_long_token_holds_counts_byte_by_byte(family: str) -> None:
    bound = BOUNDS[family]
    assert bound is not None
    assert bound.tokens_min("\U0001f98a" * 1000) >= 3000


def test_a_byte_that_the_vocabulary_lacks_counts_nothing() -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bound = bound_of(tokenizer)
    assert bound is not None
    assert bound.tokens_min("ab" * 50 + "c" * 1000) == 99


def lossy_steps() -> list[Tokenizer]:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    bare = Tokenizer(models.BPE({"a": 0}, [], unk_token="a", fuse_unk=True))
    spaceless = train("gpt2")
    spaceless.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel()]
    )
    cut = train("gpt2")
    cut.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("x", "removed"), pre_tokenizers.ByteLevel()]
    )
    return [words, bare, spaceless, cut, train("unigram")]


@pytest.mark.parametrize("number", range(5))
def test_there_is_no_bound_where_text_is_left_out(number: int) -> None:
    assert bound_of(lossy_steps()[number]) is None


def test_half_a_character_is_left_to_the_tokenizer_to_refuse() -> None:
    bound = BOUNDS["hidden_line_space"]
    assert bound is not None
    assert bound.tokens_min("\ud800" * 100) <= 100


def test_a_normalizer_that_leaves_text_out_is_followed() -> None:
    tokenizer = train("gpt2")
    tokenizer.normalizer = normalizers.Replace("\U0001f98a", "")
    bound = bound_of(tokenizer)
    assert bound is not None
    assert bound.tokens_min("\U0001f98a" * 1000) == 0


TOKENIZERS = {family: train(family) for family in FAMILIES}
BOUNDS = {family: bound_of(tokenizer) for family, tokenizer in TOKENIZERS.items()}
