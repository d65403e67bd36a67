"""An encoder from a Hugging Face directory: tokenise, run, pool, normalise."""

import logging
from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from heddle.core.errors import ConfigError
from heddle.encoder.device import find_device, torch_dtype
from heddle.encoder.encoder_directory import EncoderDirectory, Pooling
from heddle.encoder.perf_clock import PerfClock
from heddle.encoder.tokenized_text import TokenizedText
from heddle.engines.embedding.packed_encoder import PackedEncoder
from heddle.kernels.cuda_recorder import CudaRecorder

log = logging.getLogger(__name__)
WARM_UP_WORDS = 16
MEMORY_CALLS = (
    "reset_peak_memory_stats",
    "memory_allocated",
    "max_memory_allocated",
    "mem_get_info",
)


class Encoder(Protocol):
    """A model that gives the states of tokens."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its weights."""
        ...

    def states(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states [n, l, d] float32 and a mask [n, l]."""
        ...


class TransformerWorker:
    """An encoder on one device.

    Args:
        directory: where it came from.
        tokenizer: its own, which truncates to the model's length and never pads.
        encoder: the model.
        device: where it runs.
    """

    def __init__(
        self,
        directory: EncoderDirectory,
        tokenizer: Tokenizer,
        encoder: Encoder,
        device: torch.device,
    ) -> None:
        self._directory, self._tokenizer = directory, tokenizer
        self._encoder, self._device = encoder, device

    @classmethod
    def load(
        cls,
        directory: EncoderDirectory,
        dtype: str,
        device: str,
        threads: int,
        *,
        is_recorded: bool = True,
    ) -> Self:
        """Load weights from safetensors; code of the model's own is never run.

        Args:
            directory: the model.
            dtype: "float32", "bfloat16" or "auto".
            device: a torch device; auto = the GPU where there is one.
            threads: torch threads of this process.
            is_recorded: whether short batches are recorded, where the device is a GPU.

        Raises:
            ConfigError: the model or the device can't be used.
        """
        torch.set_num_threads(threads)
        place = find_device(device)
        try:
            encoder = _encoder(directory, torch_dtype(dtype, place), place, is_recorded=is_recorded)
            tokenizer = Tokenizer.from_file(str(directory.path / "tokenizer.json"))
        except ModuleNotFoundError:
            raise
        except Exception as error:  # transformers and tokenizers let any library's error through
            raise ConfigError(
                f"embedding model {directory.path} can't be loaded: {error}"
            ) from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(directory.max_tokens)
        return cls(directory, tokenizer, encoder, place)

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return self._directory.dims

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on a GPU."""
        return self._device.type != "cpu"

    @property
    def dtype(self) -> str:
        """The number type that the encoder computes in."""
        return str(self._encoder.dtype).removeprefix("torch.")

    def warm_up(self) -> tuple[float, int]:
        """Embed one text, as the first step takes longer than others, and measure its memory.

        On an accelerator the text is as long as the model takes, which is where a token takes most
        memory. On a CPU it is short: a long one would take some models minutes.

        Returns: bytes of the device that a padded token took, and bytes free after it; (0, 0) on
            a CPU, whose small steps are no matter of memory, and on a device that can't tell.
        """
        if self._device.type == "cpu":
            self._embed_words(WARM_UP_WORDS)
            return 0.0, 0
        # What torch's module for CUDA has for this, those of other accelerators (NPU) have, too.
        memory = torch.get_device_module(self._device)
        if not all(hasattr(memory, name) for name in MEMORY_CALLS):
            log.warning(
                "torch can't tell the memory of %s: batch_tokens_max alone bounds what a step "
                "takes of it",
                self._device,
            )
            self._embed_words(self._directory.max_tokens)
            return 0.0, 0
        memory.reset_peak_memory_stats(self._device)
        before = memory.memory_allocated(self._device)
        tokens = self._embed_words(self._directory.max_tokens)
        peak = memory.max_memory_allocated(self._device) - before
        free, _ = memory.mem_get_info(self._device)
        return peak / tokens, free

    def _embed_words(self, words: int) -> int:
        """Embed a text of `words` words and return how many tokens it has."""
        [text] = self.tokenize(["warm " * words])
        self.embed([text.token_ids])
        return len(text.token_ids)

    def tokenize(self, texts: Sequence[str]) -> list[TokenizedText]:
        """Return one entry for each text, its rows no longer than the model takes."""
        if self._directory.lower_case:
            texts = [text.lower() for text in texts]
        encodings = self._tokenizer.encode_batch_fast(list(texts))
        return [TokenizedText(e.ids, [window.ids for window in e.overflowing]) for e in encodings]

    @torch.inference_mode()
    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vectors of a batch [n, dims], L2-normalised."""
        states, mask = self._encoder.states(rows)
        pooled = self._pool(states, mask)
        return torch.nn.functional.normalize(pooled, dim=1).cpu().numpy()

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Shapes: states [n, l, d] float32; mask [n, l]; result [n, d]."""
        match self._directory.pooling:
            case Pooling.CLS:
                return states[:, 0]
            case Pooling.LAST_TOKEN:
                return states[torch.arange(len(states)), mask.sum(1) - 1]
            case Pooling.MAX:
                return states.masked_fill(mask[:, :, None] == 0, -torch.inf).amax(1)
            case Pooling.MEAN:
                weights = mask[:, :, None].to(states.dtype)
                return (states * weights).sum(1) / weights.sum(1)


def _encoder(
    directory: EncoderDirectory, dtype: torch.dtype, device: torch.device, *, is_recorded: bool
) -> Encoder:
    if PackedEncoder.takes(directory, device):
        return PackedEncoder.load(directory, dtype, device)
    # Late: they import transformers.
    from heddle.engines.embedding.padded_encoder import PaddedEncoder

    encoder = PaddedEncoder.load(directory, dtype, device)
    if device.type != "cuda" or not is_recorded:
        return encoder
    from heddle.engines.embedding.recorded_encoder import RecordedEncoder

    recorded = RecordedEncoder(
        encoder, device, CudaRecorder(device), PerfClock(), length_max=directory.max_tokens
    )
    recorded.record_shapes()
    return recorded
