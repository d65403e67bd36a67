"""A chunk's KV on its way to the GPU and back, from and to page-locked memory and other memory."""

import numpy as np
import torch

from benchmarks.gpu.place import Note, Place
from benchmarks.support.device_scan import median_s
from heddle.engines.llm.model.transfers import Transfers
from heddle.kv.page_store import KvBlock, KvShape, PageStore

ROUNDS = 5


def measure(place: Place, note: Note) -> dict[str, float]:
    """Time a chunk of a model of 7B's shape into the KV pool, and out of it."""
    layers, kv_heads, head_dim = place.sized((28, 4, 128), (2, 2, 16))
    tokens = place.sized(512, 16)
    store = PageStore(KvShape(layers, kv_heads, head_dim, place.dtype), 2 * tokens, place.device)
    transfers, slots = Transfers(place.device), np.arange(tokens)
    # As pages of other chunks divide it: in four runs.
    scattered = np.concatenate([part + 2 * part[0] for part in np.split(slots, 4)]) % (2 * tokens)
    size = (layers, kv_heads, tokens, head_dim)
    found: dict[str, float] = {}
    for name in place.sized(("locked", "other"), ("other",)):
        keys, values = (torch.randn(size).to(place.dtype) for _ in range(2))
        if name == "locked":
            keys, values = keys.pin_memory(), values.pin_memory()
        block = KvBlock(keys, values)
        bytes_moved = keys.nbytes + values.nbytes
        ways = {
            f"in_{name}": lambda b=block: store.load(scattered, transfers.to_device(b)),
            "out": lambda: transfers.to_host(store.gather(scattered)),
            "out_unlocked": lambda: store.gather(scattered).keys.cpu(),
        }
        for way, move in ways.items():
            seconds = median_s(place.device, move, place.sized(ROUNDS, 1))
            moved = bytes_moved // 2 if way == "out_unlocked" else bytes_moved
            note({"way": way, "mib": moved / (1 << 20), "ms": 1e3 * seconds})
            found[f"gb_per_s_{way}"] = moved / seconds / 1e9
    return found
