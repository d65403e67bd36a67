"""A GPU's memory as planned, and as it is once weights and KV pages lie there and steps ran."""

import torch

from benchmarks.gpu.place import Note, Place
from benchmarks.gpu.step_curves import SEVEN_B, TINY, decodes, prompt
from benchmarks.support.random_llama import random_llama
from heddle.app.assembly.device_memory import DeviceMemory, read_device_memory
from heddle.app.assembly.device_plan import DEVICE_SHARE, DeviceDemand, plan_device
from heddle.core.errors import InternalError
from heddle.engines.llm.attention.choice import TRITON
from heddle.engines.llm.model.gpu_layers import fuse_on_gpu
from heddle.engines.llm.model.worker import TransformersWorker, kv_shape

SMALL = DeviceMemory(1 << 30, 1 << 30)  # what the host's memory stands in for


def check(place: Place, note: Note) -> dict[str, float]:
    """Plan a GPU for a model of 7B's shape, carry the plan out, and run the largest steps.

    Raises:
        InternalError: the driver's tool shows no memory, or another than CUDA, or the steps took
            what the plan left to them.
    """
    memory = SMALL if place.is_interpreted else read_device_memory()
    if memory is None:
        raise InternalError(
            "nvidia-smi reports no memory: a server's lanes plan by themselves here"
        )
    free = _free(place, memory)
    note({"tool_free_mib": memory.free_bytes >> 20, "cuda_free_mib": free >> 20})
    shape = place.sized(SEVEN_B, TINY)
    model = random_llama(shape, 0, place.sized(1 << 15, 512), place.device.type)
    weights = sum(weight.nbytes for weight in model.parameters())
    plan = plan_device(
        str(place.device), memory, DeviceDemand(1, weights), place.sized(None, 1 << 20)
    )
    token_bytes = kv_shape(model.config, model.dtype).token_bytes
    fuse_on_gpu(model)
    worker = TransformersWorker(model, plan.kv_bytes // token_bytes, attention=TRITON)
    worker.run(prompt(0, place.sized(8192, 16)))
    worker.run(decodes(place.sized(256, 3), place.sized(4096, 16)))
    left = _free(place, memory)
    note(
        {
            "weights_mib": weights >> 20,
            "kv_mib": plan.kv_bytes >> 20,
            "kv_tokens": plan.kv_bytes // token_bytes,
            "left_mib": left >> 20,
        }
    )
    if not place.is_interpreted and left < (1 - DEVICE_SHARE) * free / 2:
        raise InternalError(f"steps left {left >> 20} MiB of {free >> 20}: the plan is too tight")
    return {
        "kv_gib": plan.kv_bytes / (1 << 30),
        "left_share": left / free,
        "tool_over_cuda": memory.free_bytes / free,
    }


def _free(place: Place, memory: DeviceMemory) -> int:
    if place.is_interpreted:
        return memory.free_bytes
    free, _ = torch.cuda.mem_get_info(place.device)
    return int(free)
