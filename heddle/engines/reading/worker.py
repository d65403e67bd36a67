"""A reading model from its directory: tokenise, cut, run, find the best spans."""

from collections.abc import Sequence
from typing import Final, Protocol, Self

import torch
from tokenizers import Tokenizer

from heddle.core.errors import ConfigError, InputError
from heddle.core.payloads import ReadingText
from heddle.core.primitives import PrimitiveKind
from heddle.encoder.device import find_device, torch_dtype
from heddle.engines.reading.packed_reader import PackedReader
from heddle.engines.reading.reading_directory import ReaderKind, ReadingDirectory
from heddle.engines.reading.spans import Finding
from heddle.engines.reading.windows import (
    NO_TEXT,
    CutPassage,
    PairMarks,
    TokenizedPassage,
    Window,
    WindowSizes,
    cut,
)

WARM_UP_TEXT: Final = ReadingText("", "warm up " * 8)


class Reader(Protocol):
    """A model that reads windows."""

    is_padded: bool

    def read(self, windows: Sequence[Window]) -> Sequence[Finding]:
        """Return the best span of each window, or only its score."""
        ...


class TransformerReadingWorker:
    """A reading model on one device.

    Args:
        directory: where it came from.
        tokenizer: its own, which neither truncates nor pads.
        reader: the model.
        device: where it runs.

    Raises:
        ConfigError: a window has no room for a passage beside the longest question.
    """

    def __init__(
        self,
        directory: ReadingDirectory,
        tokenizer: Tokenizer,
        reader: Reader,
        device: torch.device,
    ) -> None:
        self._directory, self._tokenizer, self._reader = directory, tokenizer, reader
        self._device = device
        self._marks = pair_marks(tokenizer)
        _check_room(directory, self._marks)

    @classmethod
    def load(cls, directory: ReadingDirectory, dtype: str, device: str, threads: int) -> Self:
        """Load weights from safetensors; code of the model's own is never run.

        Args:
            directory: the model.
            dtype: "float32", "bfloat16" or "auto".
            device: a torch device; auto = the GPU where there is one.
            threads: torch threads of this process.

        Raises:
            ConfigError: the model or the device can't be used.
        """
        torch.set_num_threads(threads)
        place = find_device(device)
        try:
            tokenizer = Tokenizer.from_file(str(directory.encoder / "tokenizer.json"))
            reader = _reader(directory, torch_dtype(dtype, place), place)
        except (ConfigError, ModuleNotFoundError):
            raise
        except Exception as error:  # transformers and tokenizers raise what their parts raise
            raise ConfigError(f"reading model {directory.path} can't be loaded: {error}") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(directory, tokenizer, reader, place)

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives that the model can carry out."""
        return self._directory.kinds

    @property
    def is_padded(self) -> bool:
        """Whether rows are computed at the length of the batch's longest."""
        return self._reader.is_padded

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on a GPU."""
        return self._device.type != "cpu"

    def warm_up(self) -> None:
        """Read a short passage, because first steps take longer than others."""
        [passage] = self.cut("warm up", [WARM_UP_TEXT])
        self.read(passage.windows)

    def cut(self, question: str, passages: Sequence[ReadingText]) -> list[CutPassage]:
        """Return the windows of each passage; one empty window where there is no text to quote.

        Raises:
            InputError: the question holds nothing to ask.
        """
        texts = [question, *(text for passage in passages for text in passage)]
        asked, *others = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        if not asked.ids:
            raise InputError("question holds no letters or digits: ask something in words")
        return [
            self._cut(asked.ids, TokenizedPassage(title.ids, text.ids, text.offsets))
            for title, text in zip(others[::2], others[1::2], strict=True)
        ]

    def read(self, windows: Sequence[Window]) -> Sequence[Finding]:
        """Return the best span of each window, or only its score; no window is empty."""
        return self._reader.read(windows)

    def _cut(self, question: Sequence[int], passage: TokenizedPassage) -> CutPassage:
        if not passage.text and PrimitiveKind.EXTRACTING in self.kinds:
            return NO_TEXT
        return cut(self._marks, self._directory.sizes, question, passage)


def pair_marks(tokenizer: Tokenizer) -> PairMarks:
    """Return how a tokenizer joins two texts."""
    pair = tokenizer.encode("a", "b")
    sides = pair.sequence_ids
    question, passage = sides.index(0), sides.index(1)
    question_end = len(sides) - sides[::-1].index(0)
    passage_end = len(sides) - sides[::-1].index(1)
    return PairMarks(
        before=tuple(pair.ids[:question]),
        between=tuple(pair.ids[question_end:passage]),
        after=tuple(pair.ids[passage_end:]),
        stop=tuple(tokenizer.encode(".", add_special_tokens=False).ids),
        passage_type=pair.type_ids[passage],
    )


def _check_room(directory: ReadingDirectory, marks: PairMarks) -> None:
    sizes: WindowSizes = directory.sizes
    room = sizes.window_max - sizes.question_max - sizes.title_max - marks.tokens
    if room <= sizes.overlap:
        raise ConfigError(
            f"reading model {directory.path} takes {sizes.window_max} tokens, too few for a "
            f"question of {sizes.question_max} and a title of {sizes.title_max} beside a passage"
        )


def _reader(directory: ReadingDirectory, dtype: torch.dtype, device: torch.device) -> Reader:
    if directory.kind is ReaderKind.EXTRACTOR:
        return PackedReader.load(directory, dtype, device)
    # Late: transformers takes a second to import, and only other people's models need it.
    from heddle.engines.reading.transformers_reader import TransformersReader

    return TransformersReader.load(directory, dtype, device)
