"""Token ids to text while they are generated: correct UTF-8, and stop strings across tokens."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from heddle.core.errors import ConfigError, InputError

REPLACEMENT = "\ufffd"  # what a decoder shows for bytes that are no character (yet)
WINDOW_TOKENS_MAX = 32  # a window that finds no clean cut is shortened at this length
WINDOW_TOKENS_KEPT = 16  # ... to this one: more bytes than any decoder needs to find its place
UNFINISHED_CHARS_MAX = 3  # an unfinished UTF-8 sequence has at most 3 bytes


class TextDecoder:
    """A model's own decoder, from its tokenizer.json; shared by all streams of a lane.

    Raises:
        ConfigError: the file is missing or is no tokenizer.
    """

    def __init__(self, tokenizer_json: Path) -> None:
        if not tokenizer_json.is_file():
            raise ConfigError(
                f"model directory {tokenizer_json.parent} has no {tokenizer_json.name}; "
                "save it with save_pretrained of a fast tokenizer"
            )
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer_json))
        except Exception as error:  # `tokenizers` raises a bare Exception for a malformed file
            raise ConfigError(f"{tokenizer_json} can't be read as a tokenizer: {error}") from error
        added = self._tokenizer.get_added_tokens_decoder()
        self._special_ids = frozenset(i for i, token in added.items() if token.special)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a whole sequence, without special tokens."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=True)

    def stream(self, stop: tuple[str, ...] = ()) -> "TextStream":
        """Return a stream for one generation that ends before the first of the stop strings."""
        return TextStream(self._tokenizer, self._special_ids, stop)


class TextStream:
    """The text of one generation, token by token.

    The pieces joined are the decoded sequence up to its first stop string. A piece never ends
    in a replacement character for bytes that later tokens may complete, and never shows text
    that may yet turn out to be a stop string.
    """

    def __init__(
        self, tokenizer: Tokenizer, special_ids: frozenset[int], stop: tuple[str, ...]
    ) -> None:
        self._detokenizer = _Detokenizer(tokenizer)
        self._special_ids = special_ids
        self._stop = _StopStrings(stop)

    def push(self, token_ids: Iterable[int]) -> tuple[str, bool]:
        """Take the next tokens in.

        Returns:
            the text that is certain now, and whether a stop string was met (it and what follows
            it are left out; later pushes return "").
        """
        pieces: list[str] = []
        for token_id in token_ids:
            if self._stop.is_met:
                break
            if token_id not in self._special_ids:
                pieces.append(self._stop.push(self._detokenizer.push(token_id)))
        return "".join(pieces), self._stop.is_met

    def finish(self) -> str:
        """Return the text held back; bytes that never became a character are dropped."""
        return self._stop.finish()


class _Detokenizer:
    """Decode a sliding window and give out how far its text has grown. (vLLM's method)

    One token alone decodes wrongly: a word's leading space depends on what stands before it,
    and a character may spread over tokens. So the window starts with tokens whose text is out
    already (`_settled` of them), and only what follows `_shown` characters is new.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._settled = 0
        self._shown = 0

    def push(self, token_id: int) -> str:
        self._window.append(token_id)
        text = self._decode()
        certain = text.rstrip(REPLACEMENT)
        new = certain[self._shown :]
        self._shown = max(self._shown, len(certain))
        if new and len(certain) == len(text):
            self._cut_settled()
        elif len(self._window) > WINDOW_TOKENS_MAX:
            new += self._shorten(text)
        return new

    def _cut_settled(self) -> None:
        """Forget the old context: the tokens just shown are context enough."""
        del self._window[: self._settled]
        self._settled = len(self._window)
        self._shown = len(self._decode())

    def _shorten(self, text: str) -> str:
        """Bound the window although it ends within a character; return what can't change."""
        unfinished = min(len(text) - self._shown, UNFINISHED_CHARS_MAX)
        decided = text[self._shown : len(text) - unfinished]
        del self._window[:-WINDOW_TOKENS_KEPT]
        self._settled = 0
        self._shown = max(0, len(self._decode()) - unfinished)
        return decided

    def _decode(self) -> str:
        return self._tokenizer.decode(self._window, skip_special_tokens=False)


class _StopStrings:
    """Pass text on up to the first stop string to be completed; of two that end at once, the
    longer one counts."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        if not all(stop):
            raise InputError("stop: a stop string must not be empty")
        self._stop = stop
        self._longest = max(map(len, stop), default=0)
        self._held = ""
        self.is_met = False

    def push(self, text: str) -> str:
        if not self._stop or not text:
            return text
        text = self._held + text
        ends = ((text.find(s) + len(s), text.find(s)) for s in self._stop if s in text)
        first = min(ends, default=None)
        if first is not None:
            self.is_met = True
            self._held = ""
            return text[: first[1]]
        kept = len(text) - self._possible_stop(text)
        self._held = text[kept:]
        return text[:kept]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held

    def _possible_stop(self, text: str) -> int:
        """Return the length of the longest end of `text` that a stop string starts with."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(s.startswith(text[-length:]) for s in self._stop):
                return length
        return 0
