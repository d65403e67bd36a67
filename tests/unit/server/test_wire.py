"""What clients get of an answer: receipts are JSON down to their last member."""

import json

from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft, Splice
from heddle.server.wire import answer_json, encode_json, encode_text


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


def test_json_has_no_line_break_that_a_client_cuts_at():
    marks = "".join(f"a{chr(code)}" for code in (*range(0x20), *range(0x7F, 0xA1), 0x2028, 0x2029))
    for encoded in (encode_json({marks: marks}), encode_text(marks)):
        assert len(encoded.decode().splitlines()) == 1
    assert json.loads(encode_json({marks: marks})) == {marks: marks}
    assert json.loads(encode_text(marks)) == marks
    assert encode_text("größer ✓") == '"größer ✓"'.encode(), "the rest stays as it is"
