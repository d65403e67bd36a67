"""Settings of an LLM engine (made in the main process), and the engine from them (in its lane)."""

import logging
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.dtypes import DTYPES, INT8, WEIGHTS, WHOLE, auto_dtype
from heddle.core.errors import ConfigError
from heddle.core.ports import Clock
from heddle.corpus.place import CorpusPlace
from heddle.engines.llm.attention.choice import (
    ATTENTIONS,
    COMPILED,
    TORCH,
    TRITON,
    choose_attention,
)
from heddle.engines.llm.chosen_computing import Candidate, Choice
from heddle.engines.llm.constrained.installed import missing
from heddle.engines.llm.engine import LlmEngine, LlmSpec, LlmWorker
from heddle.engines.llm.generations import TextDecoder
from heddle.engines.llm.grammar import Grammars
from heddle.engines.llm.model.kept_memory import keep_freed_memory
from heddle.engines.llm.prompt_chunk import measured_chunk
from heddle.engines.llm.reuse.fuser import ChunkCache, Fuser
from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.engines.llm.step_batch import CHECK_LAYER
from heddle.engines.llm.step_sizes import BACKGROUND_STEP_S, STEP_TOKENS
from heddle.engines.llm.warm_up import warm_up
from heddle.kv.kv_encoding import KvEncoding

if TYPE_CHECKING:
    import torch

    from heddle.engines.llm.model.worker import TransformersWorker
    from heddle.kv.chunk_store import ChunkStore

log = logging.getLogger(__name__)
RECORDED_ROWS_MAX: Final = 64  # of a step that decodes: each number of rows is recorded apart
# First guesses of what a fused prompt's row and its tokens cost besides, as shares of a step and
# of a token: the reader on a CPU.
FUSED_ROW: Final = 0.3
FUSED_TOKEN: Final = 0.2
# A database is not asked for longer whether chunks were deleted: all generations wait [s].
LOG_ANSWER_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """How to load and serve a model.

    `dtype` auto is bfloat16 on CUDA, what a trial says on CPUs that multiply it (ADR 46), else
    float32.
    `device` auto is CUDA where there is one. `attention` torch, triton (a kernel for NVIDIA GPUs)
    or compiled (one for CPUs, ADR 23); auto takes a kernel where it can, on a CPU by the trial.
    `context_tokens_max` None is the model's own, or what the KV pool of `kv_bytes` holds if that is
    less. A step has at most `max_num_batched_tokens`; None is STEP_TOKENS, on an accelerator what
    its steps show when it starts (`prompt_chunk`). `packs_weights` keeps a second copy of the
    weights, for decoding, on CPUs in float32 (in bfloat16 the packed copy is the only one). A step
    in the background, such as priming, aims to take `background_step_s` at most. `order` says whose
    prompt comes first. `threads` 0 leaves torch's setting as it is. `chunk_kv_bytes` of host memory
    keep the KV of retrieved chunks for reuse, 0 = none, as `chunk_kv_encoding` says;
    `chunk_kv_disk_bytes` more lie in `chunk_kv_dir`, which benchmarks read at
    `chunk_kv_bytes_per_s` (None = as fast as it is); with `chunk_kv_removes_excess` files beyond
    that are removed at the start. What is deleted from `corpus` is forgotten. On
    an accelerator, KV pages take `device_kv_share` of the memory that the weights leave free there,
    if that is more than `kv_bytes`. `weights` int8 brings them onto a grid of 8 bits, on a CPU
    (ADR 47); then `packs_weights` says nothing.

    Raises: ConfigError: a field is out of its range; the message names it.
    """

    model_dir: Path
    dtype: str = "auto"
    device: str = "auto"
    attention: str = "auto"
    max_num_seqs: int = 16
    max_num_batched_tokens: int | None = None
    page_size: int = 16
    kv_bytes: int = 512 << 20
    context_tokens_max: int | None = None
    packs_weights: bool = True
    chunk_kv_bytes: int = 0
    chunk_kv_encoding: KvEncoding = KvEncoding.BF16
    corpus: CorpusPlace | None = None
    chunk_kv_dir: Path | None = None
    chunk_kv_disk_bytes: int = 0
    chunk_kv_removes_excess: bool = True
    chunk_kv_bytes_per_s: float | None = None
    background_step_s: float = BACKGROUND_STEP_S
    order: CallOrder = SHORTEST_FIRST
    threads: int = 0
    device_kv_share: float = 0.0
    weights: str = WHOLE

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype is {self.dtype!r}; use one of {', '.join(DTYPES)}")
        if self.weights not in WEIGHTS:
            raise ConfigError(f"weights is {self.weights!r}; use one of {', '.join(WEIGHTS)}")
        if self.attention not in ATTENTIONS:
            raise ConfigError(
                f"attention is {self.attention!r}; use one of {', '.join(ATTENTIONS)}"
            )
        for name in ("max_num_seqs", "max_num_batched_tokens", "page_size", "kv_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if self.context_tokens_max is not None and self.context_tokens_max < 1:
            raise ConfigError(f"context_tokens_max is {self.context_tokens_max}; use 1 or more")
        if not self.background_step_s > 0:
            raise ConfigError(f"background_step_s is {self.background_step_s}; use a positive time")
        if not 0 <= self.device_kv_share < 1:
            raise ConfigError(
                f"device_kv_share is {self.device_kv_share}; use 0 or a share below 1"
            )
        if self.threads < 0:
            raise ConfigError(f"threads is {self.threads}; use 0 (torch's own) or more")


def build_engine(name: str, epoch: int, settings: LlmSettings) -> LlmEngine:
    """Load a model directory and return its engine.

    Raises: ConfigError: the directory can't be served; the message says why and what to change.
    """
    from heddle.engines.llm.model import gate as model_gate
    from heddle.engines.llm.model.loading import load_model
    from heddle.engines.llm.quantized.quantized_file import quantized_fingerprint
    from heddle.engines.llm.quantized.quantized_model import load_quantized
    from heddle.engines.llm.text.text_stream import TextDecoder as TokenizerDecoder

    config = model_gate.load_config(settings.model_dir)
    device = _device(settings.device)
    choice = computing_of(settings)
    dtype = _torch_dtype(choice.chosen.dtype)
    if choice.chosen.attention == TORCH:  # where another one is chosen, it may turn out not to suit
        settings = replace(settings, attention=TORCH)
    log.info("computed in %s", choice)
    _limits(settings, config, dtype)  # refuses before gigabytes are read
    decoder = TokenizerDecoder(settings.model_dir / "tokenizer.json")
    if settings.weights == INT8:
        model = load_quantized(settings.model_dir, config, dtype, device)
        digest = quantized_fingerprint(settings.model_dir, str(dtype))
    else:
        model = load_model(settings.model_dir, config, dtype).to(device)
        digest = model_gate.fingerprint(settings.model_dir, str(dtype))
    settings = _with_device_pages(settings, device)
    return assemble(name, epoch, settings, model, digest, decoder)


def assemble(
    name: str,
    epoch: int,
    settings: LlmSettings,
    model: Any,  # noqa: ANN401 - transformers' class
    fingerprint: str,
    decoder: TextDecoder,
    chunk_cache: ChunkCache | None = None,
) -> LlmEngine:
    """Return the engine of a model that is loaded already; its first steps are done.

    A `chunk_cache` takes the place of the chunk KV store that the settings describe.

    Mutates: the model's layers may be fused, its linear layers packed; on a CPU the process keeps
        memory that steps free.
    Raises: ConfigError: the architecture can't be served, the attention that is wanted can't run,
        or the pool can't hold one context.
    """
    import torch

    from heddle.engines.llm.model.fused_layers import PAIRED, can_fuse, fuse_layers
    from heddle.engines.llm.model.gpu_layers import can_fuse_on_gpu, fuse_on_gpu
    from heddle.engines.llm.model.packed_linear import can_pack, pack_linears
    from heddle.engines.llm.model.worker import TransformersWorker, WorkerClock

    if model.device.type == "cpu" and not keep_freed_memory():
        log.info("this system's allocator gives the steps' memory back after each of them")
    has_triton = find_spec("triton") is not None
    if can_fuse(model):
        fuse_layers(model)
        fingerprint += PAIRED
    elif model.device.type == "cuda" and has_triton and can_fuse_on_gpu(model):
        fuse_on_gpu(model)  # with each kernel of attention
    spec = spec_of(settings, model, fingerprint)
    takes_no_memory = model.dtype is not torch.float32  # its packed copy is the only one
    if (settings.packs_weights or takes_no_memory) and can_pack(model.device, model.dtype):
        pack_linears(model)
    attention = _attention(settings, model)
    pool_tokens = spec.limits.page_count * spec.limits.page_size
    worker = TransformersWorker(model, pool_tokens, attention=attention)
    log.info("attention is computed by %s", worker.attention)
    for note in worker.slowdowns:  # a missing C compiler, say: the answers are the same
        log.info("%s", note)
    if settings.attention == COMPILED and worker.attention != COMPILED:
        unsuited = (
            "it takes a model of the Llama family in float32, or in bfloat16 where the CPU "
            "multiplies it, and heads of up to 256 numbers"
        )
        why = next(iter(worker.slowdowns), unsuited)
        raise ConfigError(f"attention is 'compiled', which can't run: {why}; use auto")
    warm_up(worker, spec.limits.context_tokens_max, has_kernel=attention == TRITON)
    if model.device.type == "cuda" and attention == TRITON:
        spec = _with_recorded_decodes(spec, worker, model.device)
    if settings.max_num_batched_tokens is None and model.device.type != "cpu":
        spec = with_measured_chunk(spec, worker, WorkerClock())
    spec = _with_reuse_tried(spec, settings, worker)
    fuser = None
    if not spec.reuse_problem:
        cache = chunk_cache or _chunk_store(settings, fingerprint, model.device)
        fuser = Fuser(cache, worker, fingerprint)
    grammars, problem = _grammars(settings, model, spec)
    spec = replace(spec, constraint_problem=problem)
    return LlmEngine(name, epoch, worker, spec, decoder, WorkerClock(), fuser, grammars)


def _with_recorded_decodes(
    spec: LlmSpec, worker: "TransformersWorker", device: "torch.device"
) -> LlmSpec:
    """Record the steps that decode; where the device can't, return the spec with a note why."""
    from heddle.kernels.cuda_recorder import CudaRecorder

    limits = spec.limits
    rows = min(limits.max_num_seqs, RECORDED_ROWS_MAX)
    try:
        worker.record_decodes(CudaRecorder(device), rows, limits.context_tokens_max)
    except RuntimeError as error:  # a model whose layers wait for the device, or too little memory
        note = f"decodes are launched kernel by kernel, as they can't be recorded: {error}"
        log.warning("%s", note)
        return replace(spec, notes=(*spec.notes, note))
    log.info("steps of up to %d decodes are recorded", rows)
    return spec


def with_measured_chunk(spec: LlmSpec, worker: LlmWorker, clock: Clock) -> LlmSpec:
    """Return the spec with steps as large as the device's step times suggest."""
    limits = spec.limits
    tokens = measured_chunk(worker, limits.context_tokens_max, clock)
    step_tokens = max(tokens, limits.max_num_seqs)
    return replace(spec, limits=replace(limits, max_num_batched_tokens=step_tokens))


def _grammars(
    settings: LlmSettings,
    model: Any,  # noqa: ANN401 - transformers' class
    spec: LlmSpec,
) -> tuple[Grammars | None, str]:
    """Return what constrains the model's texts, or why nothing does."""
    from heddle.engines.llm.constrained.llguidance_grammars import LlguidanceGrammars

    if problem := missing():
        return None, problem
    if not spec.eos_ids:
        return None, "the model names no token that ends a text (eos_token_id)"
    tokenizer = Path(settings.model_dir) / "tokenizer.json"
    return LlguidanceGrammars(tokenizer, model.config.vocab_size, sorted(spec.eos_ids)), ""


def _attention(settings: LlmSettings, model: Any) -> str:  # noqa: ANN401
    """Return what is to compute the attention. Raises: ConfigError: it can't run."""
    from heddle.engines.llm.attention.triton_rows import HEAD_DIM_MAX
    from heddle.engines.llm.model.worker import kv_shape

    attention = attention_on(settings.attention, model.device, model.dtype)
    head_dim = kv_shape(model.config, model.dtype).head_dim
    if attention == TRITON and head_dim > HEAD_DIM_MAX:
        raise ConfigError(
            f"attention {TRITON} takes heads of up to {HEAD_DIM_MAX} numbers, the model's have "
            f"{head_dim}; use attention torch"
        )
    return attention


def attention_on(wanted: str, device: "torch.device", dtype: "torch.dtype") -> str:
    """Return what is to compute attention there. Raises: ConfigError: it can't run."""
    from heddle.engines.llm.attention.tilings import tiling_problem
    from heddle.engines.llm.attention.triton_rows import gpu_of

    problem = tiling_problem(gpu_of(device), dtype.itemsize)
    return choose_attention(wanted, on_gpu=device.type == "cuda", gpu_problem=problem)


def _with_reuse_tried(
    spec: LlmSpec, settings: LlmSettings, worker: "TransformersWorker"
) -> LlmSpec:
    """Return the spec with why no chunk KV can be reused, if so."""
    from heddle.engines.llm.reuse.gate import reuse_problem

    if not settings.chunk_kv_bytes:
        problem = "no memory is set aside for chunk KV (kv_reuse_memory_bytes is 0)"
        return replace(spec, reuse_problem=problem)
    found = reuse_problem(worker)
    if found is None:
        return replace(spec, reuse_problem="")
    note = f"chunk KV is not reused: {found}"
    log.error("%s", note)
    return replace(spec, reuse_problem=found, notes=(note,))


def _chunk_store(settings: LlmSettings, fingerprint: str, device: "torch.device") -> "ChunkStore":
    """Return where chunk KV is kept: pinned beside a GPU, which then reads it at full speed."""
    from heddle.corpus.store import CorpusStore
    from heddle.engines.llm.model.worker import WorkerClock
    from heddle.engines.llm.reuse.corpus_chunk_store import CorpusChunkStore
    from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings

    directory = settings.chunk_kv_dir if settings.chunk_kv_disk_bytes else None
    store_settings = ChunkStoreSettings(
        settings.chunk_kv_bytes,
        directory,
        settings.chunk_kv_disk_bytes,
        settings.chunk_kv_encoding,
        load_bytes_per_s=settings.chunk_kv_bytes_per_s,
        pins_host_memory=device.type == "cuda",
        removes_excess=settings.chunk_kv_removes_excess,
    )
    if settings.corpus is None:
        return ChunkStore(store_settings, fingerprint, WorkerClock())
    with CorpusStore.open(settings.corpus) as corpus:
        log = corpus.within(LOG_ANSWER_S)
    return CorpusChunkStore(store_settings, fingerprint, WorkerClock(), log)


def spec_of(settings: LlmSettings, model: Any, fingerprint: str) -> LlmSpec:  # noqa: ANN401
    """Return what the engine must know of a loaded model.

    Raises: ConfigError: as `assemble`.
    """
    from heddle.engines.llm.model.worker import kv_shape

    limits = _limits(settings, model.config, model.dtype)
    page_bytes = kv_shape(model.config, model.dtype).token_bytes * limits.page_size
    return LlmSpec(
        limits,
        _eos_ids(model),
        fingerprint,
        page_bytes,
        _prior_s(model),
        background_step_s=settings.background_step_s,
        order=settings.order,
    )


def _limits(settings: LlmSettings, config: Any, dtype: "torch.dtype") -> SchedulerLimits:  # noqa: ANN401
    from heddle.engines.llm.model import gate as model_gate
    from heddle.engines.llm.model.worker import kv_shape

    page_bytes = kv_shape(config, dtype).token_bytes * settings.page_size
    page_count = settings.kv_bytes // page_bytes
    if page_count < 1:
        raise ConfigError(f"kv_bytes is {settings.kv_bytes}; one page alone takes {page_bytes}")
    context = _context_tokens_max(settings, config, page_count * settings.page_size)
    model_gate.check_config(config, context)
    return SchedulerLimits(
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=max(
            settings.max_num_batched_tokens or STEP_TOKENS, settings.max_num_seqs
        ),
        page_size=settings.page_size,
        page_count=page_count,
        context_tokens_max=context,
    )


def _context_tokens_max(settings: LlmSettings, config: Any, pool_tokens: int) -> int:  # noqa: ANN401
    wanted = settings.context_tokens_max
    made_for = _made_for(config)
    if wanted is None:
        if pool_tokens < made_for:
            log.info(
                "prompts of up to %d tokens fit into kv_bytes, the model takes %d",
                pool_tokens,
                made_for,
            )
        return min(made_for, pool_tokens)
    if wanted > made_for:
        raise ConfigError(f"context_tokens_max is {wanted}; the model was made for {made_for}")
    return wanted


def _made_for(config: Any) -> int:  # noqa: ANN401 - transformers' class
    """Return the context that a model takes; YaRN stretches the one it was trained on."""
    length: int = config.max_position_embeddings
    rope = dict(getattr(config, "rope_parameters", None) or {})
    if rope.get("rope_type", rope.get("type")) != "yarn":
        return length
    trained = rope.get("original_max_position_embeddings") or length
    return max(length, int(trained * rope.get("factor", 1)))


def _device(wanted: str) -> "torch.device":
    import torch

    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ConfigError(f"device is {wanted!r}: {error}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device is {wanted!r}, and torch finds no CUDA device; use cpu or auto")
    return device


def _with_device_pages(settings: LlmSettings, device: "torch.device") -> LlmSettings:
    """Return settings whose KV pages take their share of an accelerator's free memory.

    Raises: ConfigError: less is free than they are to take.
    """
    import torch

    if device.type == "cpu":
        return settings
    free, total = torch.get_device_module(device).mem_get_info(device)
    kv_bytes = max(settings.kv_bytes, int(settings.device_kv_share * free))
    if kv_bytes > free:
        raise ConfigError(
            f"KV pages are to take {kv_bytes >> 20} MiB of {device}, and {free >> 20} of its "
            f"{total >> 20} MiB are free beside the weights: lower kv_cache_bytes, or end what "
            "else runs there"
        )
    log.info(
        "KV pages take %d MiB of %s: %d of its %d MiB were free",
        *(kv_bytes >> 20, device, free >> 20, total >> 20),
    )
    return replace(settings, kv_bytes=kv_bytes)


def computing_of(settings: LlmSettings) -> Choice:
    """Return the number type that a model is computed in, and what computes its attention.

    What is left to `auto` on a CPU is timed, once for all models of the same sizes: it takes
    seconds.

    Mutates: torch's number of threads, where the settings name one.
    Raises: ConfigError: the directory can't be served.
    """
    import torch

    from heddle.engines.llm.model import gate as model_gate
    from heddle.engines.llm.model.computing_trial import choose_computing

    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = _device(settings.device)
    on_gpu = device.type == "cuda"
    if not on_gpu and settings.attention != TRITON:
        config = model_gate.load_config(settings.model_dir)
        return choose_computing(settings.model_dir, config, settings.dtype, settings.attention)
    dtype = settings.dtype
    if dtype == "auto":
        dtype = auto_dtype(has_fast_bfloat16=on_gpu)
    attention = attention_on(settings.attention, device, _torch_dtype(dtype))
    return Choice(Candidate(dtype, attention))


def dtype_of(settings: LlmSettings) -> "torch.dtype":
    """Return the number type that a model is computed in. Raises: ConfigError: `computing_of`."""
    return _torch_dtype(computing_of(settings).chosen.dtype)


def _torch_dtype(name: str) -> "torch.dtype":
    import torch

    return torch.float32 if name == "float32" else torch.bfloat16


def _eos_ids(model: Any) -> frozenset[int]:  # noqa: ANN401 - transformers' class
    """Return the tokens that end a generation, from the generation config or the model's."""
    for source in (getattr(model, "generation_config", None), model.config):
        ids = getattr(source, "eos_token_id", None)
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()


def _prior_s(model: Any) -> dict[str, float]:  # noqa: ANN401 - transformers' class
    """Guess the cost of a step from the weights: a slow core, so that no start looks hung."""
    from heddle.engines.llm.quantized.quantized_model import weight_count

    weights = weight_count(model)
    token_s = 2.0 * weights / 20e9  # 20 GFLOP/s
    call_s = 2e-3 + 4.0 * weights / 5e9  # the weights are read once: 5 GB/s
    return {
        "call": call_s,
        "decode_tokens": token_s,
        "prefill_tokens": token_s,
        "checked_tokens": token_s * (CHECK_LAYER + 1) / model.config.num_hidden_layers,
        "context_tokens": 2e-6,
        # A fused prompt's row has gaps, and reads keys in many places.
        "fused_rows": FUSED_ROW * call_s,
        "fused_tokens": FUSED_TOKEN * token_s,
        "drafted_rows": 0.5 * call_s,  # a row of one token has faster kernels
    }
