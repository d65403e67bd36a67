"""Tokens as bytes, for the digests that name their KV."""

import struct
from collections.abc import Sequence


def token_bytes(token_ids: Sequence[int]) -> bytes:
    """Return tokens as 64-bit integers, the lowest byte first: the same on every machine.

    Not by way of numpy, which is slower at reading a tuple or a list.
    """
    return struct.pack(f"<{len(token_ids)}q", *token_ids)
