"""`heddle profile --memory DIR`: how much of the memory KV pages should get."""

import argparse
import math
from typing import Final

from heddle.app.memory_profile import write_profile
from heddle.app.profiling.memory_measuring import MemoryMeasuring
from heddle.cli.config_options import server_config
from heddle.core.errors import InputError
from heddle.core.printing.sizes import mib
from heddle.costs.memory_split import split_memory

MODEL_FIELDS: Final = (
    "generator",
    "embedder",
    "dtype",
    "context_tokens_max",
    "max_num_seqs",
    "llm_lanes",
    "replicas",
)


def profile_memory(options: argparse.Namespace) -> int:
    """Measure, print the curves and the split that they lead to, and write the profile."""
    config = server_config(options, only=MODEL_FIELDS, index=options.memory)
    if config.llm is None:
        raise InputError("--memory needs a model that writes: name it, such as --model reader")
    if not 0 < options.seconds < math.inf:
        raise InputError(f"--seconds must be above 0, got {options.seconds:g}")
    measuring = MemoryMeasuring(config, config.default_workflow, options.seconds, 0, print)
    profile = measuring.run()
    largest = max(profile.curves.generation)
    split = split_memory(profile.curves, profile.mix, math.inf, largest)
    print(
        f"best: {mib(split.kv_bytes)} of KV pages for "
        f"{split.requests_per_s:.2f} requests/s, bound by {split.bound.value}"
    )
    if options.json is not None:
        write_profile(profile, options.json)
        print(f"written: {options.json}; use it with --memory-profile {options.json}")
    return 0
