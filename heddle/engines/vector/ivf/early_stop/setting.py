"""How far searches go through the lists that they plan, as a user writes it."""

from typing import Final

from heddle.core.errors import ConfigError

EXACT: Final = "exact"
SPECULATIVE: Final = "speculative"
TARGET: Final = "target:"
SEARCH_FORM: Final = "exact|speculative|target:RECALL"


def target_recall(text: str) -> float | None:
    """Return the recall that searches are to keep; None = each scans every list that it plans.

    Raises:
        ConfigError: it is none of "exact", "speculative", and "target:" with a share between 0
            and 1.
    """
    if text in (EXACT, SPECULATIVE):
        return None
    head, _, share = text.partition(":")
    try:
        recall = float(share) if f"{head}:" == TARGET else 0.0
    except ValueError:
        recall = 0.0
    if not 0 < recall < 1:
        raise ConfigError(
            f"search {text!r}: write exact, speculative, or target: and a recall between 0 and 1, "
            "such as target:0.95"
        )
    return recall
