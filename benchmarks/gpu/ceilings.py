"""What the GPU can do at best: every other figure of the day is read beside these."""

import torch
from torch import Tensor

from benchmarks.gpu.place import Note, Place
from benchmarks.support.device_scan import copy_bandwidth, median_s

REPETITIONS = 10


def measure(place: Place, note: Note) -> dict[str, float]:
    """Time a large copy, a product of matrices, and transfers from pinned and other host memory."""
    size = place.sized(1 << 31, 1 << 20)
    found = {"copy_gb_per_s": copy_bandwidth(place.device, size) / 1e9}
    note({"what": "copy on the device", "bytes": size, "gb_per_s": found["copy_gb_per_s"]})
    found["product_tflops"] = _product_tflops(place, place.sized(8192, 128))
    note({"what": "product of matrices", "tflops": found["product_tflops"]})
    for name, host in _host_memory(place).items():
        found[f"{name}_gb_per_s"] = _transfer_gb_per_s(place, host)
        note({"what": f"{name} memory to the device", "gb_per_s": found[f"{name}_gb_per_s"]})
    return found


def _product_tflops(place: Place, side: int) -> float:
    one, other = (torch.randn(side, side, device=place.device).to(place.dtype) for _ in range(2))
    seconds = median_s(place.device, lambda: one @ other, REPETITIONS)
    return 2 * side**3 / seconds / 1e12


def _host_memory(place: Place) -> dict[str, Tensor]:
    host = torch.ones(place.sized(1 << 29, 1 << 18), dtype=torch.uint8)
    return {"pageable": host} | ({} if place.is_interpreted else {"pinned": host.pin_memory()})


def _transfer_gb_per_s(place: Place, host: Tensor) -> float:
    target = torch.empty_like(host, device=place.device)
    seconds = median_s(place.device, lambda: target.copy_(host, non_blocking=True), REPETITIONS)
    return host.nbytes / seconds / 1e9
