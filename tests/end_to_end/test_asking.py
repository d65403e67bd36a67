"""A server runs a question while its passages are looked for, and selects by it."""

import shutil
from pathlib import Path

import pytest

from heddle import Server
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.runtime.receipt import Receipt
from tests.helpers.server_state import holds_nothing

BEFORE = "Who is the keeper of Rock 3?"
QUESTION = "Who is it that lights the lamp on Rock 3?"
TRIES = 20  # it may come too late, on a machine that is busy


def ran_ahead(receipt: Receipt) -> bool:
    """Whether its question was in, and that was known before its prompt was sent."""
    is_told = any(span.kind is PrimitiveKind.ASKING for span in receipt.spans)
    return is_told and receipt.kv_reuse[0].was_ahead


@pytest.mark.numerics
def test_a_question_is_run_while_its_passages_are_looked_for(
    corpus: Path, model: Path, tmp_path: Path
):
    own = Path(shutil.copytree(corpus, tmp_path / "own"))
    reuse = {"optimizations": Optimizations.APPROX, "kv_reuse": "fusionrag,0.3,always"}
    with Server(model, own, dtype="float32", kv_cache_bytes=32 << 20, **reuse) as server:
        app = server.app("oneshot")
        app.invoke(BEFORE)  # stores the chunks that the next prompts show
        receipts = (app.invoke(QUESTION).receipt for _ in range(TRIES))
        receipt = next(r for r in receipts if ran_ahead(r))
        [span] = [s for s in receipt.spans if s.kind is PrimitiveKind.ASKING]
        [prefill] = [s for s in receipt.spans if s.kind is PrimitiveKind.PREFILLING]
        assert span.node == "answer"
        assert span.done_s <= prefill.sent_s
        assert receipt.degradations == ()
        assert receipt.kv_reuse[0].tokens_recomputed > 0
        # Two layers are all that the tiny model has, so to check what moved takes a whole prompt.
        whole = app.invoke(QUESTION, kv_reuse="cacheblend,1").receipt
        assert "with stored KV of all of its chunks" in whole.kv_reuse[0].computed_whole
        assert whole.kv_reuse[0].tokens_recomputed == 0
        assert whole.degradations == ()
        assert holds_nothing(server)
