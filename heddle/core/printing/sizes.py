"""Sizes of memory in words."""


def mib(count: int) -> str:
    """Return a number of bytes in whole MiB."""
    return f"{count / (1 << 20):,.0f} MiB"
