"""Where a request ran degraded, as its receipt says it."""

from heddle.runtime.receipt import Receipt, ReceiptDraft


def kinds(receipt: Receipt | ReceiptDraft) -> list[str]:
    """Return the kind of each of its degradations."""
    return [one.kind.value for one in receipt.degradations]


def reasons(receipt: Receipt | ReceiptDraft) -> list[str]:
    """Return the reason of each of its degradations."""
    return [one.reason for one in receipt.degradations]
