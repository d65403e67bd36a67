"""A model whose KV can't be reused is found out when it is loaded."""

from dataclasses import replace

import pytest

from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.reuse.gate import reuse_problem
from tests.helpers.tiny_models import FAMILIES, tiny_model


class TurnsWrongly(TransformersWorker):
    """Puts stored keys a token further than it should."""

    def load(self, load):
        super().load(type(load)(load.slots, load.block, load.offset, load.rotation + 1))


class ReadsWrongly(TransformersWorker):
    """Reads the keys of a shared chunk as they were stored."""

    def run(self, batch):
        rows = tuple(
            replace(row, shared=tuple(replace(part, rotation=0) for part in row.shared))
            for row in batch.rows
        )
        return super().run(replace(batch, rows=rows))


class ForgetsPlaces(TransformersWorker):
    """Takes the tokens of a step for the last ones of their row, wherever they stand."""

    def hidden_states(self, batch):
        rows = tuple(replace(row, places=None) for row in batch.rows)
        return super().hidden_states(
            type(batch)(batch.token_ids, batch.positions, batch.slots, rows)
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_known_families_pass(family):
    assert reuse_problem(TransformersWorker(tiny_model(family), 16)) is None


@pytest.mark.parametrize(
    ("worker", "problem"),
    [
        (TurnsWrongly, "keys can't be rotated to another position"),
        (ReadsWrongly, "keys can't be rotated to another position"),
        (ForgetsPlaces, "computes something else where it is given some tokens' KV"),
    ],
)
def test_what_is_wrong_is_named(worker, problem):
    assert problem in reuse_problem(worker(tiny_model("llama"), 16))
