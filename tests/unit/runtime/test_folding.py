"""Results of engines become values of slots."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.counts import SearchCounts
from heddle.core.errors import InternalError
from heddle.core.passages import Passage, Place
from heddle.core.payloads import Sampling
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import (
    FinishReason,
    Generated,
    Hits,
    Ingested,
    KvHandle,
    KvTransfer,
    Prefilled,
    RankedHits,
    RecallEstimate,
    RemoteRun,
    ToolResult,
    Vectors,
)
from heddle.graph.primitive import DecodeConfig, EmbedConfig, Primitive, Read, SearchConfig
from heddle.runtime.folding import fold, reported
from heddle.runtime.receipt import ReceiptDraft
from tests.helpers.degraded import kinds
from tests.helpers.fake_ports import FakePassages


def primitive(config, kind=PrimitiveKind.SEARCHING):
    return Primitive("p@0", kind, "n", (), ("out@0",), config)


def fold_hits(*groups, topk=2, passages=None):
    search = primitive(SearchConfig("v", topk, None))
    receipt = ReceiptDraft()
    return fold(search, dict(enumerate(groups)), passages, receipt), receipt


def hits(labels, distances, **about):
    return Hits(np.array(labels, np.int64), np.array(distances, np.float32), **about)


def fold_hybrid(*groups, topk=3):
    search = primitive(SearchConfig("v", topk, None, words=(Read("query"),)))
    receipt = ReceiptDraft()
    return fold(search, dict(enumerate(groups)), None, receipt), receipt


def test_what_was_known_before_is_counted_and_the_newest_recall_told():
    now = RecallEstimate(0.97, 0.9, 100)
    groups = [
        hits([[1]], [[0.1]], counts=SearchCounts(hits_cached=1), recall=now),
        hits([[2]], [[0.2]], counts=SearchCounts(hits_cached=2)),
    ]
    _, receipt = fold_hits(*groups)
    assert (receipt.hits_cached, receipt.recall) == (3, now)


class TestHybridHits:
    def test_rankings_by_meaning_and_by_words_are_fused(self):
        words = RankedHits(np.array([[3, 2, 4]]), np.array([[0.9, 0.5, 1.5]], np.float32))
        found, receipt = fold_hybrid(hits([[1, 2, 3]], [[0.25, 0.5, 0.75]], by_words=words), topk=4)
        assert [(p.chunk_id, p.distance) for p in found] == [
            (3, 0.75),
            (2, 0.5),
            (1, 0.25),
            (4, 1.5),
        ]
        assert receipt.degradations == []

    def test_what_is_missing_has_no_place(self):
        words = RankedHits(np.array([[-1, -1]]), np.full((1, 2), np.inf, np.float32))
        found, _ = fold_hybrid(hits([[5, -1]], [[0.25, np.inf]], by_words=words))
        assert [p.chunk_id for p in found] == [5]

    def test_an_index_without_words_is_told(self):
        found, receipt = fold_hybrid(hits([[5, 6]], [[0.25, 0.5]]))
        assert [p.chunk_id for p in found] == [5, 6]
        assert "only meaning counted" in receipt.degradations[0].reason


class TestHits:
    def test_the_nearest_over_all_rows_each_once(self):
        found, _ = fold_hits(hits([[1, 2], [2, 3]], [[0.5, 0.75], [0.25, 1.0]]), topk=3)
        assert [(p.chunk_id, p.distance) for p in found] == [(2, 0.25), (1, 0.5), (3, 1.0)]

    def test_parts_of_split_rows_are_joined(self):
        found, receipt = fold_hits(
            hits([[1]], [[0.5]], counts=SearchCounts(3, 2)),
            hits([[2]], [[0.25]], counts=SearchCounts(5, 4)),
        )
        assert [p.chunk_id for p in found] == [2, 1]
        assert (receipt.lists_scanned, receipt.lists_probed) == (6, 8)

    def test_places_without_a_hit_are_left_out(self):
        found, _ = fold_hits(hits([[7, -1]], [[0.5, np.inf]]))
        assert [p.chunk_id for p in found] == [7]

    def test_equal_distances_go_by_id(self):
        found, _ = fold_hits(hits([[9, 3]], [[0.5, 0.5]]))
        assert [p.chunk_id for p in found] == [3, 9]

    def test_passages_are_looked_up_and_keep_their_distance(self):
        (found,), _ = fold_hits(hits([[5]], [[0.5]]), passages=FakePassages())
        assert (found.title, found.distance) == ("t5", 0.5)

    def test_all_else_of_a_passage_stays(self):
        place = Place("notes/mill.txt", 2, ("Mills",), 3, 9)
        stored = Passage(5, "d", "t", "x", 0.0, 3, "", "c", place, 2, 0.75)

        class Kept(FakePassages):
            def passages(self, chunk_ids):
                return [stored]

        (found,), _ = fold_hits(hits([[5]], [[0.5]]), passages=Kept())
        assert found == replace(stored, distance=0.5)

    def test_chunks_deleted_meanwhile_are_left_out(self):
        class Forgetful(FakePassages):
            def passages(self, chunk_ids):
                return super().passages([i for i in chunk_ids if i != 5])

        found, _ = fold_hits(hits([[5, 6]], [[0.5, 0.75]]), passages=Forgetful())
        assert [p.chunk_id for p in found] == [6]

    def test_what_belongs_to_another_tenant_is_left_out(self):
        class Owned(FakePassages):
            def passages(self, chunk_ids):
                owners = {5: "me", 6: "another", 7: ""}
                return [replace(p, tenant=owners[p.chunk_id]) for p in super().passages(chunk_ids)]

        search, found = primitive(SearchConfig("v", 3, None)), hits([[5, 6, 7]], [[0.1, 0.2, 0.3]])
        for tenant, seen in (("me", [5, 7]), ("", [7])):
            passages = fold(search, {0: found}, Owned(), ReceiptDraft(), tenant)
            assert [p.chunk_id for p in passages] == seen

    def test_a_damaged_passage_is_left_out_and_noted_for_its_tenant_alone(self):
        class Damaged(FakePassages):
            def passages(self, chunk_ids):
                owners = {5: "me", 6: "another", 7: ""}
                sound = super().passages([i for i in chunk_ids if i != 8])
                return [replace(p, tenant=owners[p.chunk_id]) for p in sound]

            def count_damaged(self, chunk_ids, tenant):
                return sum(chunk_id == 8 and tenant == "me" for chunk_id in chunk_ids)

        search = primitive(SearchConfig("v", 4, None))
        found = hits([[5, 6, 7, 8]], [[0.1, 0.2, 0.3, 0.4]])
        for tenant, seen, notes in (("me", [5, 7], 1), ("another", [6, 7], 0)):
            receipt = ReceiptDraft()
            passages = fold(search, {0: found}, Damaged(), receipt, tenant)
            assert [p.chunk_id for p in passages] == seen
            assert kinds(receipt) == ["corpus"] * notes

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=20))
    def test_splitting_rows_changes_nothing(self, pairs):
        rows = [hits([[label]], [[distance / 4]]) for label, distance in pairs]
        labels, distances = zip(*pairs, strict=True)
        whole = hits([[i] for i in labels], [[d / 4] for d in distances])
        assert fold_hits(*rows, topk=4)[0] == fold_hits(whole, topk=4)[0]


class TestHitsOfEach:
    def test_every_query_has_its_own_in_their_order_and_each_passage_comes_once(self):
        search = primitive(SearchConfig("v", 2, None, each=True))
        parts = {0: hits([[1, 2, 3]], [[0.1, 0.2, 0.3]]), 1: hits([[4, 2]], [[0.05, 0.4]])}
        found = fold(search, parts, None, ReceiptDraft())
        assert [p.chunk_id for p in found] == [1, 2, 4]
        assert [p.distance for p in found] == pytest.approx([0.1, 0.2, 0.05])

    def test_words_are_fused_within_their_query(self):
        search = primitive(SearchConfig("v", 1, None, words=(Read("query"),), each=True))
        words = RankedHits(np.array([[2, 1], [4, 3]]), np.zeros((2, 2), np.float32))
        both = hits([[2, 1], [4, 3]], [[0.1, 0.2], [0.1, 0.2]], by_words=words)
        assert [p.chunk_id for p in fold(search, {0: both}, None, ReceiptDraft())] == [2, 4]


class TestVectors:
    embed = primitive(EmbedConfig(()), PrimitiveKind.EMBEDDING)

    def test_rows_are_stacked_by_their_first_row(self):
        one, two = (
            Vectors(np.full((1, 2), v, np.float32), truncated=1, windowed=2) for v in (1, 2)
        )
        receipt = ReceiptDraft()
        value = fold(self.embed, {3: two, 0: one}, None, receipt)
        assert value.values.tolist() == [[1, 1], [2, 2]]
        assert (receipt.texts_truncated, receipt.texts_windowed) == (2, 4)

    def test_one_part_is_passed_on(self):
        vectors = Vectors(np.ones((2, 2), np.float32))
        assert fold(self.embed, {0: vectors}, None, ReceiptDraft()) is vectors


class TestGenerated:
    def fold(self, text, as_lines):
        decode = primitive(DecodeConfig("kv", Sampling(), as_lines), PrimitiveKind.DECODING)
        generated = Generated(text, (1, 2, 3), FinishReason.STOP, preemptions=2)
        receipt = ReceiptDraft()
        return fold(decode, {0: generated}, None, receipt), receipt

    def test_text_is_stripped(self):
        value, receipt = self.fold(" yes \n", as_lines=False)
        assert value == "yes"
        assert (receipt.generated_tokens, receipt.preemptions) == (3, 2)

    def test_a_prompt_that_came_from_another_lane_is_counted(self):
        decode = primitive(DecodeConfig("kv", Sampling(), False), PrimitiveKind.DECODING)
        moved = KvTransfer(64, 0.5)
        generated = Generated("a", (1,), FinishReason.STOP, transfer=moved)
        receipt = ReceiptDraft()
        fold(decode, {0: generated}, None, receipt)
        assert (receipt.kv_transfers, receipt.kv_transfer_bytes) == (1, 64)

    def test_lines_become_a_list(self):
        assert self.fold("a\nb", as_lines=True)[0] == ("a", "b")

    def test_no_line_is_one_empty_item_and_the_receipt_says_so(self):
        value, receipt = self.fold("\n", as_lines=True)
        assert value == ("",)
        assert "node 'n' wrote no line" in receipt.degradations[0].reason


def test_tools_and_ingestions_pass_their_value_on():
    plain = primitive(EmbedConfig(()), PrimitiveKind.TOOL)
    assert fold(plain, {0: ToolResult([1])}, None, ReceiptDraft()) == [1]
    assert fold(plain, {0: Ingested(2, 3)}, None, ReceiptDraft()) == Ingested(2, 3)


def test_a_result_that_is_no_value_is_a_bug():
    plain = primitive(EmbedConfig(()), PrimitiveKind.EMBEDDING)
    prefilled = Prefilled(KvHandle("llm", 1, 1), 1, 0)
    with pytest.raises(InternalError, match="Prefilled"):
        fold(plain, {0: prefilled}, None, ReceiptDraft())


@pytest.mark.parametrize(
    ("results", "tokens", "ended"),
    [
        ((Prefilled(KvHandle("llm", 1, 1), 100, 40),), (100, 40, 0), (None, "")),
        ((Generated("a", (5, 6), FinishReason.LENGTH),), (0, 0, 2), (FinishReason.LENGTH, "")),
        (
            (
                Generated(
                    "a", (), FinishReason.STOP, remote=RemoteRun("http://h", "qwen", 9, 4, tokens=3)
                ),
            ),
            (9, 4, 3),
            (FinishReason.STOP, "qwen at http://h"),
        ),
        (
            (Vectors(np.zeros((1, 4), np.float32), 7), Vectors(np.zeros((1, 4), np.float32), 8)),
            (15, 0, 0),
            (None, ""),
        ),
        ((), (0, 0, 0), (None, "")),
    ],
)
def test_a_span_has_the_tokens_that_its_results_report(
    results: tuple, tokens: tuple[int, int, int], ended: tuple[FinishReason | None, str]
) -> None:
    assert reported(results) == (*tokens, *ended)
