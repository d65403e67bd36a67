"""The cost-model workers answer the same in every batch, and charge for their work."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.passages import Passage
from heddle.core.search_scope import SearchScope
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SlotRun
from heddle.simulator.cost_model_embedding import CostModelEmbeddingWorker
from heddle.simulator.cost_model_llm import (
    EOS_ID,
    VOCABULARY,
    CostModelLlmWorker,
    WordDecoder,
    WordTokenizer,
)
from heddle.simulator.cost_model_vector import CostModelScanner, SimulatedCorpus, SimulatedPassages
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.disk import Disk
from heddle.simulator.library import SHELF
from heddle.simulator.timeline import Timeline


def device():
    return SimulatedDevice(Timeline(), random.Random(0), jitter_share=0.0)


class TestLlm:
    def run(self, worker, tokens, runs, start=0):
        """Send tokens[start:] through the worker in one step; return the drawn token."""
        slots = np.concatenate([np.arange(r.start, r.start + r.length) for r in runs])
        queries = len(tokens) - start
        row = BatchRow(0, queries, len(tokens), runs, Draw())
        ids = np.array(tokens[start:], np.int64)
        batch = StepBatch(ids, np.arange(start, len(tokens)), slots[start : len(tokens)], (row,))
        return worker.run(batch).token_ids[0]

    @given(st.lists(st.integers(3, VOCABULARY - 1), min_size=2, max_size=12), st.data())
    def test_the_next_token_depends_on_the_tokens_and_not_on_chunks_or_places(self, tokens, data):
        whole = self.run(CostModelLlmWorker(device(), 64), tokens, (SlotRun(0, 32),))
        cut = data.draw(st.integers(1, len(tokens) - 1))
        elsewhere = (SlotRun(40, cut), SlotRun(8, 20))
        worker = CostModelLlmWorker(device(), 64)
        self.run(worker, tokens[:cut], elsewhere)
        assert self.run(worker, tokens, elsewhere, start=cut) == whole
        assert 0 <= whole < VOCABULARY

    def test_every_earlier_token_matters(self):
        ends = {
            self.run(CostModelLlmWorker(device(), 64), [first, 4, 5, 6], (SlotRun(0, 8),))
            for first in range(3, 40)
        }
        assert len(ends) > 25

    def test_kv_moves_to_another_worker(self):
        tokens, runs = [5, 6, 7, 8], (SlotRun(4, 4),)
        one, two = (CostModelLlmWorker(device(), 64) for _ in range(2))
        whole = self.run(one, tokens, runs)
        two.load_kv(np.arange(20, 23), one.pack_kv(np.arange(4, 7)))
        assert self.run(two, tokens, (SlotRun(20, 4),), start=3) == whole

    def test_some_generations_end_by_themselves(self):
        ends = [
            self.run(CostModelLlmWorker(device(), 64), [3, token], (SlotRun(0, 2),))
            for token in range(3, 300)
        ]
        assert 0.05 < ends.count(EOS_ID) / len(ends) < 0.2

    def test_more_tokens_take_longer(self):
        short, long = device(), device()
        self.run(CostModelLlmWorker(short, 64), [3] * 2, (SlotRun(0, 64),))
        self.run(CostModelLlmWorker(long, 64), [3] * 40, (SlotRun(0, 64),))
        assert long.take_spent_s() > 2 * short.take_spent_s()


class TestTokenizer:
    def test_a_prompt_is_a_segment_a_part_between_head_and_tail(self):
        tokenizer = WordTokenizer(100)
        passage = Passage(1, "d", "title", "text")
        head, first, pending, shown, tail = tokenizer.encode_prompt(["two words", None, passage])
        assert first.token_ids == tokenizer.encode_slot("two words")
        assert pending.is_pending
        assert len(shown.token_ids) == 3  # "##", title, text
        assert head.token_ids != tail.token_ids
        assert EOS_ID not in first.token_ids

    def test_streamed_text_is_words_and_line_ends(self):
        stream = WordDecoder().stream(())
        assert stream.push([7])[0] == "w7 "
        assert stream.push([10]) == ("\n", False)
        assert stream.finish() == ""


class TestVector:
    def search(self, cuts, k=3, nprobe=6):
        worker = CostModelScanner(device(), seed=1)
        queries = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
        lists = worker.coarse(queries, nprobe)
        distances = np.full((4, k), np.inf, np.float32)
        labels = np.full((4, k), -1, np.int64)
        for first, stop in zip((0, *cuts), (*cuts, nprobe), strict=True):
            worker.scan(queries, lists[:, first:stop], distances, labels)
        return labels, distances

    @given(st.lists(st.integers(0, 6), max_size=4).map(sorted))
    def test_scanning_in_pieces_finds_the_same(self, cuts):
        labels, distances = self.search(cuts)
        expected_labels, expected_distances = self.search(())
        assert (labels == expected_labels).all()
        assert (distances == expected_distances).all()

    def test_all_lists_are_exhaustive_search(self):
        labels, distances = self.search((), k=5, nprobe=12)
        worker = CostModelScanner(device(), seed=1)
        queries = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
        flat = worker._vectors.reshape(-1, 4)
        exact = ((queries[:, None] - flat[None]) ** 2).sum(axis=2)
        assert (np.sort(exact, axis=1)[:, :5] == distances).all()
        assert (np.argsort(exact, axis=1)[:, :5] == labels).all()

    def test_padding_is_no_hit(self):
        worker = CostModelScanner(device())
        distances, labels = np.full((1, 2), np.inf, np.float32), np.full((1, 2), -1, np.int64)
        worker.scan(np.ones((1, 4), np.float32), np.full((1, 3), -1), distances, labels)
        assert labels.tolist() == [[-1, -1]]

    @pytest.mark.parametrize("tenant", ["", "a", "b"])
    def test_a_filtered_search_finds_what_a_plain_one_does(self, tenant):
        """Through lists or by comparing each: of all lists, both find the nearest allowed."""
        lane = device()
        scanner = CostModelScanner(lane)
        allowed = SimulatedCorpus(scanner, lane, has_owners=True).allowed(SearchScope(tenant))
        query = np.ones((1, 4), np.float32)
        distances, labels = np.full((1, 3), np.inf, np.float32), np.full((1, 3), -1, np.int64)
        scanner.scan(query, np.arange(12)[None], distances, labels, allowed)
        nearest = scanner.nearest_of(query, allowed, 3)
        plain = sorted(scanner.plain_search(query, 12, allowed.labels))[:3]
        assert labels.tolist() == nearest[1].tolist() == [[label for _, label in plain]]
        assert distances.tolist() == nearest[0].tolist() == [[away for away, _ in plain]]

    def test_without_owners_and_a_filter_everything_is_allowed(self):
        lane = device()
        corpus = SimulatedCorpus(CostModelScanner(lane), lane)
        assert corpus.allowed(SearchScope("a")) is None
        filtered = corpus.allowed(SearchScope(where=((SHELF, ("1",)),)))
        assert set(filtered.labels % 3) == {1}

    def test_what_is_stored_takes_time_and_outlives_the_lane(self):
        lane, disk = device(), Disk()
        corpus = SimulatedCorpus(CostModelScanner(lane), lane, disk)
        assert corpus.store(np.array([4, 5]), np.ones((2, 4), np.float32)) == 2
        assert lane.take_spent_s() > 0
        assert SimulatedCorpus(CostModelScanner(lane), device(), disk).revision == 2
        assert corpus.store(np.array([5]), np.ones((1, 4), np.float32)) == 2


class TestEmbedding:
    def test_a_text_s_vector_doesn_t_depend_on_its_batch(self):
        worker = CostModelEmbeddingWorker(device())
        rows = [text.token_ids for text in worker.tokenize(["a", "b c", "a"])]
        together = worker.embed(rows)
        alone = np.concatenate([worker.embed([row]) for row in rows])
        assert (together == alone).all()
        assert (together[0] == together[2]).all()
        assert (together[0] != together[1]).any()
        assert np.allclose(np.linalg.norm(together, axis=1), 1.0)


def test_passages_are_made_up_from_their_ids():
    first, second = SimulatedPassages().passages([3, 9])
    assert (first.chunk_id, first.document_id) == (3, "document 0")
    assert second.text != first.text


def test_passages_name_their_owners_where_there_are_any():
    assert [p.tenant for p in SimulatedPassages().passages([0, 1, 3])] == ["", "", ""]
    owned = SimulatedPassages(has_owners=True)
    assert [p.tenant for p in owned.passages([0, 1, 3])] == ["", "a", "b"]
