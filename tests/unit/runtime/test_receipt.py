"""What a receipt says went another way than asked."""

from heddle.core.results import KvTransfer
from heddle.core.tasks import Optimizations
from heddle.runtime.receipt import FallbackKind, ReceiptDraft


def test_fallbacks_are_said_in_words_and_counted_by_kind():
    draft = ReceiptDraft()
    draft.fall_back(FallbackKind.SEARCH)
    draft.fall_back(FallbackKind.SEARCH, "one shard is lost", "no words")
    draft.fall_back(FallbackKind.RETRY, "searched again")
    receipt = draft.close(Optimizations.EXACT, 1.0, "batch-invariant")
    assert receipt.fallbacks == ("one shard is lost", "no words", "searched again")
    assert receipt.fallback_kinds == {"search": 2, "retry": 1}


def test_prompts_that_came_from_another_lane_add_up():
    draft = ReceiptDraft()
    draft.take_transfer(KvTransfer(1000, 0.25))
    draft.take_transfer(KvTransfer(24, 0.5, "3 prompt tokens were computed anew"))
    receipt = draft.close(Optimizations.EXACT, 1.0, "exact")
    assert receipt.kv_transfers == 2
    assert receipt.kv_transfer_bytes == 1024
    assert receipt.kv_transfer_s == 0.75
    assert receipt.fallbacks == ("3 prompt tokens were computed anew",)
    assert receipt.fallback_kinds == {FallbackKind.KV_TRANSFER.value: 1}
