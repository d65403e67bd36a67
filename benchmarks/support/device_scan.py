"""What benchmarks of a GPU share: its bandwidth, timing, and a full scan to compare with."""

import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from heddle.core.errors import ConfigError

FULL_SCAN_ROWS: Final = 1 << 20  # vectors that the full scan compares at once
WARM_UPS: Final = 3


def gpu_named(device: str) -> torch.device:
    """Return the GPU that `--device` asks for.

    Raises:
        ConfigError: it asks for something else, or there is none.
    """
    if device != "cuda":
        raise ConfigError(f"--device: need cpu or cuda, got {device!r}")
    if not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch finds no GPU here")
    return torch.device("cuda", 0)


def full_scan(
    plain: torch.Tensor, norms: torch.Tensor, queries: NDArray[np.float32], k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k nearest of each query, by products of pieces of the matrix in its own dtype."""
    on_device = torch.from_numpy(queries).to(plain)
    found, labels = [], []
    for first in range(0, len(plain), FULL_SCAN_ROWS):
        piece = slice(first, first + FULL_SCAN_ROWS)
        distances = norms[piece] - 2 * (on_device @ plain[piece].T)
        nearest, at = distances.topk(min(k, distances.shape[1]), largest=False)
        found.append(nearest)
        labels.append(at + first)
    nearest, at = torch.cat(found, dim=1).topk(k, largest=False)
    return nearest.cpu(), torch.cat(labels, dim=1).gather(1, at).cpu()


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Return what a copy on the device reads and writes [bytes/s]."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / median_s(device, lambda: target.copy_(source))


def median_s(device: torch.device, call: Callable[[], object], repetitions: int = 20) -> float:
    """Return the median time of a call, with nothing left running [s]."""
    times_s = []
    warm_ups = min(WARM_UPS, repetitions)
    for _ in range(repetitions + warm_ups):
        wait(device)
        started_s = time.perf_counter()
        call()
        wait(device)
        times_s.append(time.perf_counter() - started_s)
    return statistics.median(islice(times_s, warm_ups, None))


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
