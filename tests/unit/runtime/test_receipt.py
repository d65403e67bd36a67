"""What a receipt says went another way than asked."""

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
