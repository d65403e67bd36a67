"""What clients get of an answer: receipts are JSON down to their last member."""

import json

from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft, Splice
from heddle.server.wire import answer_json, encode_json


def test_a_retrieval_while_decoding_is_told():
    splice = Splice("answer", 0, FinishReason.INTERVAL, 12, 0.5, 3, 2, 1, 40, 200)
    draft = ReceiptDraft(splices={"answer.prefilling.1@0": splice})
    answer = Answer("Ada", (), {}, draft.close(Optimizations.EXACT, 1.5, "exact"))
    receipt = json.loads(encode_json(answer_json(answer)))["receipt"]
    assert receipt["splices"] == [
        {
            "node": "answer",
            "turn": 0,
            "reason": "interval",
            "at_token": 12,
            "at_s": 0.5,
            "chunks_found": 3,
            "chunks_added": 2,
            "chunks_dropped": 1,
            "tokens_computed": 40,
            "tokens_reused": 200,
        }
    ]
