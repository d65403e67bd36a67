"""Processes for embedding beside decoding: two embedding lanes and an LLM on a device, one on CPU.

The encoder has BERT-large's shape, the LLM a Llama's of 1.2 billion; their weights are random.
"""

import math
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.support.beside_decoding import (
    CPU,
    DEVICE,
    LLM,
    ROWS_MAX,
    UNBOUNDED,
    Sizes,
    headline,
    run_cells,
)
from benchmarks.support.data import made_from
from benchmarks.support.random_llama import Shape, random_llama
from benchmarks.support.shaped_encoders import bge
from heddle.app.assembly.embedding_lanes import SHARED_STEP_S
from heddle.app.assembly.lane_probe import LaneProbe
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.engines.embedding.build import EmbeddingSettings, default_model_dir
from heddle.engines.llm.build import LlmSettings
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import MachineFacts, read_machine
from heddle.hosts.process import start_lanes
from heddle.runtime.clock import SystemClock

FULL: Final = Sizes(20.0, 0.25, (0.5, 1.2), sequences=32, prompt_tokens=256, answer_tokens=256)
QUICK: Final = Sizes(3.0, 0.25, (0.5,), sequences=8, prompt_tokens=64, answer_tokens=64)
DECODER: Final = Shape("1.2B", 16, 2048, 32, 8192, kv_heads=8, head_dim=64)
KV_BYTES: Final = 4 << 30
HOSTS: Final = 3  # cores that the lanes on the device and this process keep


@dataclass(slots=True)
class DeviceLanes:
    """Ports by name. Mutates: `wait` clears `arrived`."""

    ports: Mapping[str, EnginePort]
    clock: SystemClock = field(default_factory=SystemClock)
    arrived: threading.Event = field(default_factory=threading.Event)

    def wait(self, until_s: float) -> None:
        """Return when a lane has told something, or at a time on the clock."""
        left_s = until_s - self.clock.now_s()
        if self.arrived.wait(None if math.isinf(left_s) else max(0.0, left_s)):
            self.arrived.clear()


def run_on_device(device: str, quick: bool, seed: int) -> dict[str, object]:
    """Measure every cell with the device's lanes; returns settings, rows and headline."""
    sizes = QUICK if quick else FULL
    specs = lane_specs(device, "bfloat16", sizes, bge(), _decoder(), read_machine())
    rows = measure(specs, sizes, seed)
    settings = {**asdict(sizes), "decoder": DECODER.name, "step_s_max": SHARED_STEP_S}
    settings["device"] = torch.cuda.get_device_name() if device == "cuda" else device
    return {"settings": settings, "rows": rows, "headline": headline(rows)}


def lane_specs(
    device: str, dtype: str, sizes: Sizes, encoder: Path, decoder: Path, machine: MachineFacts
) -> list[LaneSpec]:
    """Return an LLM lane and three that embed.

    Those are on the device with short steps, there with long ones, and on the CPU's highest cores.
    """
    cores = max(1, machine.cores - HOSTS)
    is_whole = machine.cores == len(machine.cpus)
    cpus = machine.cpus[-cores:] if is_whole else ()
    embedding: dict[str, Any] = {"model": str(encoder), "dtype": dtype, "cache_bytes": 0}
    short = EmbeddingSettings(device=device, step_s_max=SHARED_STEP_S, **embedding)
    long = EmbeddingSettings(device=device, **embedding)
    on_cpu = EmbeddingSettings(device="cpu", threads=cores, **embedding)
    llm = LlmSettings(
        decoder,
        dtype=dtype,
        device=device,
        max_num_seqs=sizes.sequences,
        kv_bytes=KV_BYTES if device == "cuda" else KV_BYTES >> 7,
        context_tokens_max=sizes.prompt_tokens + sizes.answer_tokens + 1,
        threads=1,
    )
    kinds = frozenset({PrimitiveKind.PREFILLING, PrimitiveKind.DECODING})
    decoding = EngineSpec(LLM, "heddle.engines.llm.build:build_engine", llm, ROWS_MAX, kinds)
    return [
        LaneSpec(LLM, (decoding,)),
        LaneSpec(DEVICE, (_embedder(DEVICE, short),)),
        LaneSpec(UNBOUNDED, (_embedder(UNBOUNDED, long),)),
        LaneSpec(CPU, (_embedder(CPU, on_cpu),), cpus, cores),
    ]


def measure(specs: Sequence[LaneSpec], sizes: Sizes, seed: int) -> list[dict[str, Any]]:
    """Start the lanes, time the embedding ones while nothing else runs, and run all cells."""
    with ExitStack() as stack:
        processes = start_lanes(specs)
        for process in processes:
            stack.callback(process.close)
        ports = {name: port for process in processes for name, port in process.ports.items()}
        lanes = DeviceLanes(ports)
        embedding = [name for name in ports if name != LLM]
        costs = {name: LaneProbe(ports[name], lanes.clock).cold_start() for name in embedding}
        for port in ports.values():
            port.subscribe(lanes.arrived.set)
        limits = {
            name: EmbeddingSettings().limits(on_gpu=name != CPU and torch.cuda.is_available())
            for name in embedding
        }
        return run_cells(lanes, costs, limits, sizes, seed)


def _embedder(name: str, settings: EmbeddingSettings) -> EngineSpec:
    kinds = frozenset({PrimitiveKind.EMBEDDING})
    factory = "heddle.engines.embedding.build:build_engine"
    return EngineSpec(name, factory, settings, ROWS_MAX, kinds)


def _decoder() -> Path:
    """Return the LLM's directory, made first where it is missing (2.4 GB)."""
    folder = made_from("llama", asdict(DECODER))
    if not (folder / "model.safetensors").is_file():
        print("writing a Llama of random weights (not measured) ...")
        shutil.copy(default_model_dir() / "tokenizer.json", folder)
        model = random_llama(DECODER, seed=0, context_tokens_max=2048)
        model.to(torch.bfloat16).save_pretrained(folder)
    return folder
