"""What a server is made of: one frozen value, checked where it is made."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.tasks import Optimizations
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import POLICIES

HOSTS: Final = ("process", "inline")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server is put together.

    Args:
        generator: a model's directory, installed name or hub name; None = no generation.
        index: a corpus directory made by `heddle index`; None = no retrieval.
        embedder: a Hugging Face encoder directory; None = the packaged MiniLM.
        host: "process" = engines in lanes of their own; "inline" = in this process.
        dtype: auto, float32 or bfloat16, for both models.
        device: auto, cpu or cuda, for the LLM.
        attention: what computes the LLM's: torch, or triton on an NVIDIA GPU; auto = triton where
            it can.
        heterogeneous: with an accelerator, whether the CPU embeds what it can't take in time.
        nprobe: clusters a search scans; None = the index's default.
        max_num_seqs: sequences the LLM runs at once.
        max_num_batched_tokens: tokens of one LLM step.
        context_tokens_max: most tokens of a prompt and its answer; None = the model's own limit,
            or what the KV pages hold if that is less.
        kv_bytes: memory for KV pages; None = by the placement plan.
        batching: how admission is ordered, one of `runtime.batching.POLICIES`.
        optimizations: the most that any request may use.
        kv_reuse: how prompts use the KV of retrieved chunks that was computed elsewhere, unless a
            request says otherwise; anything but full attention needs optimizations APPROX.
        chunk_kv_bytes: host memory for that KV; 0 = none is kept.
        chunk_kv_disk_bytes: what the corpus directory may hold of it; 0 = none; None = 1 GiB, or
            what it holds already if that is more.
        disabled_passes: passes to leave out, by name.
        tool_threads: calls of user functions at once.
        limits: bounds of the runtime.
        needs_vectors: refuse a corpus without vectors; indexing says False.

    Raises:
        ConfigError: a value is out of its range; the message names the field.
    """

    generator: str | Path | None = "reader"
    index: str | Path | None = None
    embedder: str | Path | None = None
    host: str = "process"
    dtype: str = "auto"
    device: str = "auto"
    attention: str = "auto"
    heterogeneous: bool = True
    nprobe: int | None = None
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    context_tokens_max: int | None = None
    kv_bytes: int | None = None
    batching: str = "topology_aware"
    optimizations: Optimizations = Optimizations.EXACT
    kv_reuse: KvReuse = FULL_ATTENTION
    chunk_kv_bytes: int = 256 << 20
    chunk_kv_disk_bytes: int | None = None
    disabled_passes: frozenset[str] = frozenset()
    tool_threads: int = 8
    limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    needs_vectors: bool = True

    def __post_init__(self) -> None:
        if self.host not in HOSTS:
            raise ConfigError(f"host must be one of {', '.join(HOSTS)}, got {self.host!r}")
        if self.batching not in POLICIES:
            raise ConfigError(
                f"batching must be one of {', '.join(POLICIES)}, got {self.batching!r}"
            )
        if self.generator is None and self.index is None:
            raise ConfigError("a server needs a generator, an index, or both; both are None")
        if self.kv_reuse.is_approximate and self.optimizations is not Optimizations.APPROX:
            raise ConfigError(
                f"kv_reuse {self.kv_reuse.policy.value!r} gives approximate answers: allow them "
                "with optimizations=Optimizations.APPROX"
            )
        for name in ("chunk_kv_bytes", "chunk_kv_disk_bytes"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("max_num_seqs", "max_num_batched_tokens", "tool_threads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("context_tokens_max", "kv_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}; None = the default")
