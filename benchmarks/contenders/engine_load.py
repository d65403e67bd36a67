"""What loading an engine takes, in a process of its own: `python -m ... DIRECTORY DTYPE WEIGHTS`.

Prints one JSON line: CPU seconds of loading, once the libraries are there, and the most memory
beyond what those take, during the load and an answer to a prompt.
"""

import json
import sys
import time
from pathlib import Path
from typing import Final

import torch
import transformers

from benchmarks.support.engine_driver import EngineDriver
from heddle.core.frames import Progress
from heddle.core.kv_reuse import FULL_ATTENTION
from heddle.core.payloads import Segment
from heddle.core.results import Prefilled
from heddle.core.tasks import Optimizations
from heddle.engines.llm.build import LlmSettings, build_engine, dtype_of
from heddle.engines.llm.constrained import llguidance_grammars
from heddle.engines.llm.quantized import quantized_model
from heddle.kernels.compiled_kernel import find_row_kernel

KV_BYTES: Final = 64 << 20
PROMPT: Final = 512
ANSWER: Final = 32
LIBRARIES: Final = (transformers.LlamaForCausalLM, llguidance_grammars, quantized_model)


def _memory_bytes(field: str) -> int:
    """Return what /proc says of this process's memory: VmRSS now, VmHWM at the most."""
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) << 10


def main() -> None:
    """Load, answer, and print the time and memory that took."""
    directory, dtype, weights = sys.argv[1:]
    settings = LlmSettings(Path(directory), dtype=dtype, weights=weights, kv_bytes=KV_BYTES)
    find_row_kernel(in_bfloat16=dtype_of(settings) is torch.bfloat16)
    before_bytes, started_s = _memory_bytes("VmRSS"), time.process_time()
    engine = build_engine("llm", 1, settings)
    load_s = time.process_time() - started_s
    driver = EngineDriver(engine)
    prompt = (Segment(tuple(range(300, 300 + PROMPT))),)
    waiting = set(driver.ask(prompt, FULL_ATTENTION, Optimizations.OFF, ANSWER))
    while waiting:
        for task, result in driver.step():
            if not isinstance(result, Progress):
                waiting.discard(task)
            if isinstance(result, Prefilled):
                driver.release(result.handle)
    taken = {"load_s": load_s, "peak_bytes": _memory_bytes("VmHWM") - before_bytes}
    print(json.dumps({**taken, "kv_bytes": KV_BYTES}), flush=True)


if __name__ == "__main__":
    main()
