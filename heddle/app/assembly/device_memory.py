"""How much memory the GPU of a server has, as the driver's own tool reports it. Loads no torch."""

import logging
import os
import subprocess
from typing import Final, NamedTuple

log = logging.getLogger(__name__)
TOOL: Final = "nvidia-smi"
WAIT_S_MAX: Final = 20.0  # the first call after a start wakes the driver up, which takes seconds


class DeviceMemory(NamedTuple):
    """Memory of one GPU, and what of it no process holds [bytes]."""

    total_bytes: int
    free_bytes: int


def read_device_memory() -> DeviceMemory | None:
    """Return the memory of the GPU that torch calls cuda:0; None = the tool can't say.

    The tool numbers GPUs by their place on the bus. CUDA does so where they are alike, or where
    CUDA_DEVICE_ORDER is PCI_BUS_ID. A lane that finds less memory than was planned refuses to
    start, so a mistaken GPU is noticed.
    """
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    what = "--query-gpu=memory.total,memory.free"
    command = [TOOL, f"--id={first}", what, "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=WAIT_S_MAX, check=True
        ).stdout
        total, free = (int(part) << 20 for part in said.split(","))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.info("%s doesn't say how much memory the GPU has: %s", TOOL, error)
        return None
    return DeviceMemory(total, free)
