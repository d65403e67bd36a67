"""Rows one behind the other give what transformers gives each row alone."""

import weakref
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig, BertModel

from heddle.core.errors import ConfigError
from heddle.encoder.embedding_table import NAMES, EmbeddingTable, SharedTables
from heddle.encoder.packed_bert import BertShape, PackedBert, PackedRows, filled_count

pytestmark = pytest.mark.numerics
CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=40,
)
CPU = torch.device("cpu")


def bert() -> BertModel:
    torch.manual_seed(0)
    return BertModel(CONFIG, add_pooling_layer=False).eval()


def packed(model: BertModel, dtype: torch.dtype = torch.float32) -> PackedBert:
    half = model.to(dtype)
    return PackedBert(EmbeddingTable.of(half.embeddings), half.state_dict(), BertShape(3, 4))


def rows_of(lengths: list[int]) -> PackedRows:
    generator = torch.Generator().manual_seed(len(lengths))
    total = sum(lengths)
    return PackedRows(
        torch.randint(0, 50, (total,), generator=generator),
        torch.randint(0, 2, (total,), generator=generator),
        torch.cat([torch.arange(length) for length in lengths]),
        lengths,
    )


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_packed_rows_equal_rows_alone(lengths: list[int]) -> None:
    model, rows = bert(), rows_of(lengths)
    with torch.inference_mode():
        found = packed(model)(rows)
        expected = [
            model(input_ids=ids[None], token_type_ids=types[None]).last_hidden_state[0]
            for ids, types in zip(rows.ids.split(lengths), rows.types.split(lengths), strict=True)
        ]
    torch.testing.assert_close(found, torch.cat(expected), atol=1e-5, rtol=1e-4)


def test_wanted_tokens_have_the_states_that_all_have() -> None:
    encoder, rows = packed(bert()), rows_of([5, 9, 2])
    with torch.inference_mode():
        for places in ([0, 3, 5, 13, 15], [15, 1, 2, 3, 8, 9, 10]):  # the second is filled up
            wanted = torch.tensor(places)
            torch.testing.assert_close(encoder(rows, wanted), encoder(rows)[wanted])


def test_few_numbers_of_rows_are_computed() -> None:
    filled = [filled_count(count) for count in range(1, 4_097)]
    assert all(count <= found <= count * 1.34 for count, found in enumerate(filled, 1))
    assert all(found <= count * 9 / 8 for count, found in enumerate(filled, 1) if count > 24)
    assert filled[:13] == [1, 2, 3, 4, 5, 6, 9, 9, 9, 12, 12, 12, 15]
    assert [filled_count(found) for found in filled] == filled
    assert len(set(filled)) <= 100


def test_bfloat16_is_close() -> None:
    rows = rows_of([7, 30, 1])
    with torch.inference_mode():
        full = packed(bert())(rows)
        half = packed(bert(), torch.bfloat16)(rows)
    assert half.dtype == torch.bfloat16
    assert torch.nn.functional.cosine_similarity(full, half.float()).min() > 0.99


def test_a_missing_weight_is_named() -> None:
    model = bert()
    weights = {name: w for name, w in model.state_dict().items() if "layer.2" not in name}
    with pytest.raises(KeyError, match=r"encoder\.layer\.2"):
        PackedBert(EmbeddingTable.of(model.embeddings), weights, BertShape(3, 4))


def test_a_table_is_read_once_and_forgotten_with_its_last_user(tmp_path: Path) -> None:
    bert().save_pretrained(tmp_path)
    tables = SharedTables()
    table = tables.table(tmp_path, torch.float32, CPU)
    assert tables.table(tmp_path, torch.float32, CPU) is table
    half = weakref.ref(tables.table(tmp_path, torch.bfloat16, CPU))
    assert half() is None, "it goes with its only user"
    first = table.word.data_ptr()
    model = BertModel.from_pretrained(tmp_path)
    assert model.embeddings.word_embeddings.weight.data_ptr() != first
    before = model.embeddings.word_embeddings.weight.clone()
    held = tables.share(tmp_path, model)
    assert held is table
    assert model.embeddings.word_embeddings.weight.data_ptr() == first
    assert torch.equal(model.embeddings.word_embeddings.weight, before)
    whole = weakref.ref(table)
    del table, held
    assert whole() is None


def test_a_model_of_other_embeddings_shares_nothing(tmp_path: Path) -> None:
    model = bert()
    model.embeddings.extra = torch.nn.Linear(2, 2)
    assert SharedTables().share(tmp_path, model) is None
    assert SharedTables().share(tmp_path, torch.nn.Linear(2, 2)) is None


def test_weights_of_no_bert_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=NAMES["position"]):
        EmbeddingTable.read(tmp_path, torch.float32, CPU)
