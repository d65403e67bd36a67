"""Settings of a reading lane and how it is built, inside the lane."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.dtypes import DTYPES
from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.encoder.perf_clock import PerfClock
from heddle.engines.reading.engine import ReadingEngine
from heddle.engines.reading.installed import extractor_directory
from heddle.engines.reading.reading_directory import ReadingDirectory

CPU_BATCH_TOKENS: Final = 1024
GPU_BATCH_TOKENS: Final = 32768
CPU_BATCH_ROWS: Final = 64
GPU_BATCH_ROWS: Final = 512


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """What a reading lane serves, and how.

    Args:
        model: the directory of an extractor, of a model for question answering, or of a
            cross-encoder; None = the installed extractor.
        dtype: float32, bfloat16, or auto: bfloat16 where the device is fast in it, else float32.
        device: a torch device; auto = the GPU where there is one.
        reranks: whether it takes reranking, where its model can; False = another engine does.
        batch_tokens_max: tokens in a step; None = 1024 on a CPU, 32768 on a GPU.
        batch_rows_max: windows in a step; None = 64 on a CPU, 512 on a GPU.
        threads: torch threads.
        step_s_max: time that a step may take [s], where others wait for the device meanwhile;
            inf = the batch limits alone.
        order: whose passages are read first.

    Raises:
        ConfigError: a value is out of range.
    """

    model: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    reranks: bool = True
    batch_tokens_max: int | None = None
    batch_rows_max: int | None = None
    threads: int = 1
    step_s_max: float = math.inf
    order: CallOrder = SHORTEST_FIRST

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"reading dtype is {self.dtype!r}; use one of {', '.join(DTYPES)}")
        for name in ("batch_tokens_max", "batch_rows_max", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"reading {name}: need at least 1, got {value}")
        if not self.step_s_max > 0:
            raise ConfigError(f"reading step_s_max must be above 0 s, got {self.step_s_max}")

    def limits(self, *, on_gpu: bool, is_padded: bool) -> BatchLimits:
        """Return the batch limits for a kind of device."""
        tokens = self.batch_tokens_max or (GPU_BATCH_TOKENS if on_gpu else CPU_BATCH_TOKENS)
        rows = self.batch_rows_max or (GPU_BATCH_ROWS if on_gpu else CPU_BATCH_ROWS)
        return BatchLimits(tokens, rows, window_rows=4 * rows, is_padded=is_padded)

    def open(self) -> ReadingDirectory:
        """Read the model's directory.

        Raises:
            ConfigError: it can't be read, or none is installed.
        """
        return ReadingDirectory.open(extractor_directory() if self.model is None else self.model)


class ReadingFacts(NamedTuple):
    """What the server needs to know of a reading model before it is loaded.

    A quote that scores less than `threshold` should count as "not found".
    """

    name: str
    directory: Path
    kinds: frozenset[PrimitiveKind]
    threshold: float


def reading_facts(settings: ReadingSettings) -> ReadingFacts:
    """Return a reading model's facts from its JSON files, without torch.

    Raises:
        ConfigError: the directory is no model that this engine can run.
    """
    directory = settings.open()
    return ReadingFacts(
        directory.name, directory.path, _kinds(directory, settings), directory.threshold
    )


def build_engine(name: str, epoch: int, settings: ReadingSettings) -> ReadingEngine:
    """Load the model and return an engine over it.

    Raises:
        ConfigError: the model can't be loaded, or the device isn't there.
    """
    directory = settings.open()
    # Late, because settings are made in processes that never load torch.
    from heddle.engines.reading.worker import TransformerReadingWorker

    worker = TransformerReadingWorker.load(
        directory, settings.dtype, settings.device, settings.threads
    )
    worker.warm_up()
    return ReadingEngine(
        name,
        epoch,
        worker,
        PerfClock(),
        limits=settings.limits(on_gpu=worker.on_gpu, is_padded=worker.is_padded),
        kinds=_kinds(directory, settings),
        threshold=directory.threshold,
        step_s_max=settings.step_s_max,
        order=settings.order,
    )


def _kinds(directory: ReadingDirectory, settings: ReadingSettings) -> frozenset[PrimitiveKind]:
    """Return the primitives that an engine of these settings takes.

    Raises:
        ConfigError: none is left.
    """
    kinds = directory.kinds if settings.reranks else directory.kinds - {PrimitiveKind.RERANKING}
    if not kinds:
        raise ConfigError(
            f"the cross-encoder {directory.path} only reranks, and reranks is False: "
            "name an extractor"
        )
    return kinds
