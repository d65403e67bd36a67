"""Where a receipt says that its request ran degraded."""

from heddle.core.degradation import Degradation, DegradationKind
from heddle.core.results import KvTransfer
from heddle.core.tasks import Optimizations
from heddle.runtime.receipt import ReceiptDraft
from tests.helpers.degraded import kinds, reasons


def test_degradations_have_a_kind_and_a_reason():
    draft = ReceiptDraft()
    draft.degrade(DegradationKind.SEARCH)
    draft.degrade(DegradationKind.SEARCH, "one shard is lost", "no words")
    draft.degrade(DegradationKind.RETRY, "searched again")
    receipt = draft.close(Optimizations.EXACT, 1.0, "batch-invariant")
    assert reasons(receipt) == ["one shard is lost", "no words", "searched again"]
    assert kinds(receipt) == ["search", "search", "retry"]


def test_prompts_that_came_from_another_lane_add_up():
    draft = ReceiptDraft()
    draft.take_transfer(KvTransfer(1000, 0.25))
    draft.take_transfer(KvTransfer(24, 0.5, "3 prompt tokens were computed anew"))
    receipt = draft.close(Optimizations.EXACT, 1.0, "exact")
    assert receipt.kv_transfers == 2
    assert receipt.kv_transfer_bytes == 1024
    assert receipt.kv_transfer_s == 0.75
    reason = "3 prompt tokens were computed anew"
    assert receipt.degradations == (Degradation(DegradationKind.KV_TRANSFER, reason),)
