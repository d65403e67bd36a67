"""The fewest tokens a text can have, by its bytes alone: what can't fit is not tokenised.

A token stands for at most as many bytes as the longest token that holds one of them. So a byte
counts 1/n, where n is the length of the longest token with such a byte, and no token's bytes count
more than 1 together. That is closer than the longest token of all, which is often a run of spaces.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

BYTES: Final = 256
UTF8_BYTES: Final = (*range(0xC0), *range(0xC2, 0xF5))  # no text has the others
SPACE_MARK: Final = "▁"  # how SentencePiece writes a space
_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-F]{2})>$")
# Steps that cut a text and leave nothing of it out.
_KEEPING_STEPS: Final = frozenset({"ByteLevel", "Metaspace", "Digits", "Sequence"})


class TokenBound:
    """Bounds how few tokens a tokenizer can make of a text.

    Args:
        tokenizer: gives its normalizer; tokens are counted of what that makes of a text.
        shares: for each byte value what such a byte counts [tokens], [256] float64.
    """

    def __init__(self, tokenizer: Tokenizer, shares: NDArray[np.float64]) -> None:
        self._tokenizer = tokenizer
        self._shares = shares

    @classmethod
    def of(cls, spec: Mapping[str, object], tokenizer: Tokenizer) -> Self | None:
        """Return the bound of a tokenizer; None where a token may stand for any number of bytes.

        Such tokenizers leave parts of a text out, or have one token for all that they don't know.

        Args:
            spec: its tokenizer.json.
            tokenizer: made of it.
        """
        if not _keeps_all(spec):
            return None
        is_byte_level = _is_byte_level(spec)
        contents = {_content(token, is_byte_level) for token in tokenizer.get_vocab()}
        singles = contents if is_byte_level else _byte_tokens(tokenizer)
        known = [bytes((byte,)) in singles for byte in range(BYTES)]
        if not is_byte_level and not all(known[byte] for byte in UTF8_BYTES):
            return None
        longest: dict[int, int] = {}
        for content in sorted(contents, key=len, reverse=True):
            for byte in content:
                longest.setdefault(byte, len(content))
        # A vocabulary of bytes that lacks one leaves it out of texts: it counts nothing.
        lengths = [longest.get(byte, 1) if known[byte] else np.inf for byte in range(BYTES)]
        return cls(tokenizer, 1.0 / np.array(lengths))

    def tokens_min(self, text: str) -> int:
        """Return a number of tokens that the text has at least."""
        text = text.encode(errors="replace").decode()  # a normalizer takes no half characters
        normalizer = self._tokenizer.normalizer
        normal = text if normalizer is None else normalizer.normalize_str(text)
        content = normal.replace(SPACE_MARK, " ").encode()
        counts = np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=BYTES)
        # One less: the border to the next part may take a space away, and sums are rounded.
        return max(0, int(counts @ self._shares) - 1)


def _keeps_all(spec: Mapping[str, object]) -> bool:
    """Whether every byte of a normalised text is in one of its tokens."""
    model, added = spec.get("model"), spec.get("added_tokens")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        return False
    tokens = [token for token in added or () if isinstance(token, dict)]  # type: ignore[attr-defined]
    if any(not token["special"] and (token["lstrip"] or token["rstrip"]) for token in tokens):
        return False  # it takes in any number of spaces beside it
    return all(_keeps(step) for step in _steps(spec.get("pre_tokenizer")))


def _keeps(step: Mapping[str, object]) -> bool:
    kind = step.get("type")
    if kind in ("Split", "Punctuation"):
        return step.get("behavior") != "Removed"
    return kind in _KEEPING_STEPS


def _steps(pre_tokenizer: object) -> Iterable[Mapping[str, object]]:
    if isinstance(pre_tokenizer, dict):
        yield pre_tokenizer
        for member in pre_tokenizer.get("pretokenizers") or ():
            yield from _steps(member)


def _is_byte_level(spec: Mapping[str, object]) -> bool:
    return any(step.get("type") == "ByteLevel" for step in _steps(spec.get("pre_tokenizer")))


def _byte_tokens(tokenizer: Tokenizer) -> set[bytes]:
    """Return the bytes that have a token for texts that no other token fits."""
    found = (tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(BYTES))
    return {bytes((byte,)) for byte, token in enumerate(found) if token is not None}


def _content(token: str, is_byte_level: bool) -> bytes:
    """Return the bytes that a token stands for."""
    if is_byte_level and _LEVELS.issuperset(token):
        return token.translate(_BYTE_LEVELS).encode("latin-1")
    single = None if is_byte_level else _BYTE_TOKEN.match(token)
    if single is not None:
        return bytes((int(single[1], 16),))
    return token.replace(SPACE_MARK, " ").encode(errors="replace")


def _byte_levels() -> dict[int, int]:
    """Return which byte each character of a byte-level vocabulary stands for. (GPT-2)"""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(BYTES) if byte not in printable]
    return dict(zip(printable, printable, strict=True)) | {
        BYTES + place: byte for place, byte in enumerate(rest)
    }


_BYTE_LEVELS: Final = _byte_levels()
_LEVELS: Final = frozenset(map(chr, _BYTE_LEVELS))
