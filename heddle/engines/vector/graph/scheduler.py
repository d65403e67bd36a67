"""Which graph searches the next step extends, and how far. Pure: no graph, no device, no clock."""

TOPM, TOPM_MAX = 64, 1024  # candidates that a search keeps: by default, and at most
EXTENDS_MAX = 1 << 31
RUNNABLE = 8
"""Tasks that have begun and go on on a core, but for more urgent ones: more would only wait
elsewhere. On a device all in flight go on together."""
STRETCH = 32.0
"""How long a search without a deadline should take at most, as a multiple of its time alone. That
lets short ones pass long ones, and still no long one waits for ever."""


def slack_s(deadline_s: float, extends_left: float, extend_s: float) -> float:
    """Return a search's slack, up to the time now, which is the same for all [s].

    Source: Trinity §3.3: deadline - now - extends left x seconds of an extend.
    """
    return deadline_s - extends_left * extend_s


def in_extends(seconds: float, extend_s: float) -> int:
    """Return how many extends take this long, at most a number that no search reaches."""
    if extend_s <= 0:
        return EXTENDS_MAX
    return int(min(max(seconds, 0.0) / extend_s, EXTENDS_MAX))


def soft_deadline_s(now_s: float, seconds_left: float, alone_s: float) -> float:
    """Return when a search should be over that would take `alone_s` alone [s]."""
    return now_s + min(seconds_left, STRETCH * alone_s)
