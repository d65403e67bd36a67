"""Settings of an embedding lane and how it is built, inside the lane."""

import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.dtypes import DTYPES
from heddle.core.errors import ConfigError
from heddle.core.ports import Clock
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.encoder.encoder_directory import (
    PROMPT_NAMES,
    EncoderDirectory,
    default_model_dir,
)
from heddle.encoder.perf_clock import PerfClock
from heddle.encoder.tokenizer_thread import Tokenize, TokenizerThread
from heddle.engines.embedding.engine import PRIOR_S, EmbeddingEngine, EmbeddingWorker
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.vector_cache import VectorCache

__all__ = [
    "EmbeddingSettings",
    "ModelFacts",
    "build_engine",
    "default_model_dir",
    "model_facts",
]

log = logging.getLogger(__name__)
CPU_BATCH_TOKENS, GPU_BATCH_TOKENS = 512, 32768
CPU_BATCH_ROWS, GPU_BATCH_ROWS = 64, 512
TIMED_TEXT = "warm " * 16  # by which a model's first steps are predicted
CACHE_BYTES = 32 << 20  # about 18,000 vectors of MiniLM


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """What an embedding lane serves, and how.

    Args:
        model: a Hugging Face encoder directory; None = the packaged MiniLM.
        dtype: float32, bfloat16, or auto: bfloat16 where the device is fast in it, else float32.
            Vectors of two types agree to about three digits: never mix them in one corpus.
        device: a torch device; auto = the GPU where there is one.
        batch_tokens_max: padded tokens in a step; None = 512 on a CPU, where more are no
            faster and only hold up the lane, 32768 on a GPU.
        batch_rows_max: texts in a step; None = 64 on a CPU, 512 on a GPU.
        threads: torch threads.
        long_texts: what becomes of texts longer than the model takes, where a task doesn't say:
            "cut", or "window": the mean of their windows' vectors, weighted by tokens.
        step_s_max: time that a step may take [s]: embedding on a GPU that also decodes makes no
            token wait for longer; inf = the batch limits alone.
        cache_bytes: memory for vectors of earlier queries; 0 = none are kept.
        tokenizer_cpus: cores of a thread that tokenises while the device computes; () = any core;
            None = no such thread: each step first tokenises its own texts, on the lane's cores.
        order: whose texts are embedded first.

    Raises:
        ConfigError: a value is out of range.
    """

    model: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    batch_tokens_max: int | None = None
    batch_rows_max: int | None = None
    threads: int = 1
    long_texts: LongTexts = LongTexts.CUT
    step_s_max: float = math.inf
    cache_bytes: int = CACHE_BYTES
    tokenizer_cpus: tuple[int, ...] | None = None
    order: CallOrder = SHORTEST_FIRST

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"embedding dtype is {self.dtype!r}; use one of {', '.join(DTYPES)}")
        for name in ("batch_tokens_max", "batch_rows_max", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"embedding {name}: need at least 1, got {value}")
        if not self.step_s_max > 0:
            raise ConfigError(f"embedding step_s_max must be above 0 s, got {self.step_s_max}")
        if self.cache_bytes < 0:
            raise ConfigError(f"embedding cache_bytes: need at least 0, got {self.cache_bytes}")

    def limits(self, *, on_gpu: bool) -> BatchLimits:
        """Return the batch limits for a kind of device."""
        tokens, rows = (
            (GPU_BATCH_TOKENS, GPU_BATCH_ROWS) if on_gpu else (CPU_BATCH_TOKENS, CPU_BATCH_ROWS)
        )
        rows = self.batch_rows_max or rows
        return BatchLimits(self.batch_tokens_max or tokens, rows, window_rows=4 * rows)


class ModelFacts(NamedTuple):
    """What the corpus needs to know of an encoder before it is loaded."""

    name: str
    dims: int
    max_tokens: int


def model_facts(model: str | None = None) -> ModelFacts:
    """Return an encoder's facts from its JSON files, without torch.

    Raises:
        ConfigError: the directory is no encoder that this engine can run.
    """
    directory = EncoderDirectory.open(model)
    return ModelFacts(directory.name, directory.dims, directory.max_tokens)


def build_engine(name: str, epoch: int, settings: EmbeddingSettings) -> EmbeddingEngine:
    """Load the encoder and return an engine over it.

    Raises:
        ConfigError: the model can't be loaded, or the device isn't there.
    """
    directory = EncoderDirectory.open(settings.model)
    # Late, because settings are made in processes that never load torch.
    from heddle.engines.embedding.worker import TransformerWorker

    _tell_of_unused_prompts(directory)
    worker = TransformerWorker.load(directory, settings.dtype, settings.device, settings.threads)
    limits = settings.limits(on_gpu=worker.on_gpu).within_memory(*worker.warm_up())
    clock = PerfClock()
    return EmbeddingEngine(
        name,
        epoch,
        worker,
        clock,
        limits=limits,
        prior_s=PRIOR_S if directory.is_packaged else _prior_s(worker, clock),
        prompts=directory.prompts,
        cache=VectorCache(directory.name, worker.dtype, settings.cache_bytes),
        long_texts=settings.long_texts,
        step_s_max=settings.step_s_max,
        row_tokens_max=directory.max_tokens,
        tokenizer=_tokenizer(worker.tokenize, settings.tokenizer_cpus),
        order=settings.order,
    )


def _prior_s(worker: EmbeddingWorker, clock: Clock) -> Mapping[str, float]:
    """Return the packaged model's costs, as many times as long as one text takes this model.

    A step that takes ten times its prediction counts as hung, and the first ones of a model with
    billions of weights would.
    """
    [text] = worker.tokenize([TIMED_TEXT])
    started_s = clock.now_s()
    worker.embed([text.token_ids])
    seconds = clock.now_s() - started_s
    usual_s = PRIOR_S["call"] + len(text.token_ids) * PRIOR_S["tokens"]
    slower = max(1.0, seconds / usual_s)
    return {name: slower * cost_s for name, cost_s in PRIOR_S.items()}


def _tell_of_unused_prompts(directory: EncoderDirectory) -> None:
    """Warn of a model whose prompts have names that no role stands for: its texts get none."""
    if directory.prompt_names and not any(directory.prompts.values()):
        known = ", ".join(name for names in PROMPT_NAMES.values() for name in names)
        log.warning(
            "the embedding model %s has prompts named %s, and texts get none of them: name those "
            "for questions and passages as one of %s in its config_sentence_transformers.json",
            directory.name,
            ", ".join(directory.prompt_names),
            known,
        )


def _tokenizer(tokenize: Tokenize, cpus: tuple[int, ...] | None) -> TokenizerThread | None:
    if cpus is None:
        return None
    # The library's own threads would run on the lane's cores, beside the device's.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return TokenizerThread(tokenize, cpus)
