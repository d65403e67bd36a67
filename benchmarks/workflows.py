"""Latency of HedraRAG's five workflows under load, beside asyncio programs and frameworks.

* asyncio_fifo: the workflows written by hand on engines that serve calls as they come: what users
  have today. Sub-questions are searched together, the prefix cache is on. A printed calibration
  chooses how searches run (one call a query, whole batches, sub-stages), whether the LLM has the
  cores that retrieval leaves or all of them, then the prompt chunk (256, 512 or 1,024), by the
  throughput of a short saturated run each. All engines have this chunk.
* asyncio_same: the same programs on Heddle's engines, which serve the shortest call first. Like
  Heddle's own, their LLM has retrieval's cores as well while those are idle.
* heddle: the runtime on those engines, exact.
* heddle_approx: the runtime with chunk KV by FusionRAG at 15 %. The store was filled beforehand
  with what another day's questions retrieve most, at most 4,096 chunks. RAGPulse says how popular
  questions are, and what two days have in common.

Corpora: *light*, 46,000 Wikipedia passages in the default index (quick: 2,000), asked a day's
popular questions, and *heavy*, the same passages among 4,000,000 vectors in inverted lists, of
which a search scans 64 to 512 times a factor, drawn log-uniformly; the factor is found first, so
that searches take 45 % of what engines work for an unloaded oneshot. *heavy default* is a row
beside it: the same vectors in the kind of index that `heddle index` would choose. Real questions,
the reader as LLM in float32. Arrivals are Poisson at 0.8 of the capacity of asyncio_fifo, which is
its throughput with 16 in flight. Blocks of the same arrivals go to all contenders, in turns whose
order is reversed each time; lanes are drained in between. Every block has a prefix cache of its
own. A block in which other guests of the machine took over 5 % of its time is run again, once; one
that fails, as well. What was measured so far stands in a journal in the cache.

The run fails where exact contenders' generations differ anywhere but at a near-tie, where one has
prompts that another lacks, or where a block loses a frame or retries anything twice. x_* are the
other's latency over heddle's (x_approx: asyncio_fifo's over heddle_approx's), above 1 = heddle is
faster; `_low95` is the lower bound of a paired bootstrap over the blocks. `search_share_*`: of the
engines' time of an unloaded oneshot, that of its search. `approx_f1_drop`: token F1 of heddle's
answers minus that of heddle_approx's, over the light corpus's blocks.

Other runs, each by its option: --frameworks (LangGraph, Haystack, LlamaIndex Workflows, the stage
barrier), --teola (LlamaDist, LlamaDistPC), --ratio (mixes of workflows), --nprobe (lists scanned),
--offline (all questions at once), --speculate (Heddle beside itself without speculation), --host
ray --compare process (whether answers are the same where Ray has placed the LLM lane). Their files
in benchmarks/coscheduling/ say what they measure.
--simulated runs contenders on the virtual clock, over more workflows and loads; see
benchmarks/virtual/simulated.py. It is calibrated by the work that a run here records, which
--calibration names.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.coscheduling import (
    at_once,
    framework_load,
    guess_load,
    placed_by_ray,
    steady_load,
    sweeps,
    teola_load,
)
from benchmarks.virtual.simulated import run_simulated
from heddle.core.errors import InputError

Measured = Callable[[bool, int], dict[str, Any]]
MODES: Final[Mapping[str, Measured]] = {
    "frameworks": framework_load.measured,
    "teola": teola_load.measured,
    "ratio": sweeps.ratios_measured,
    "nprobe": sweeps.nprobes_measured,
    "offline": at_once.measured,
    "speculate": guess_load.measured,
}


def run(
    quick: bool,
    seed: int,
    *,
    frameworks: bool = False,
    teola: bool = False,
    ratio: bool = False,
    nprobe: bool = False,
    offline: bool = False,
    speculate: bool = False,
    simulated: bool = False,
    calibration: Path | None = None,
    host: str | None = None,
    compare: str | None = None,
) -> dict[str, Any]:
    """Run what an option names; without one, Heddle beside asyncio.

    Raises:
        InputError: two options.
    """
    asked = {
        "frameworks": frameworks,
        "teola": teola,
        "ratio": ratio,
        "nprobe": nprobe,
        "offline": offline,
        "speculate": speculate,
        "simulated": simulated,
        "host": host is not None,
    }
    named = [name for name, is_asked in asked.items() if is_asked]
    if len(named) > 1:
        raise InputError(f"--{named[0]} and --{named[1]} are runs of their own: give one")
    if (host, compare) not in ((None, None), ("ray", "process")):
        raise InputError("--host takes ray and --compare takes process: give both, or neither")
    if calibration is not None and not simulated:
        raise InputError("--calibration is of --simulated: give both")
    if simulated:
        return run_simulated(quick, seed, calibration)
    if host is not None:
        return placed_by_ray.measured(quick, seed)
    measure = MODES[named[0]] if named else steady_load.measured
    return measure(quick, seed)


def prepare(quick: bool, seed: int) -> None:
    """Build the indexes and fill the store of chunk KV, so that a run only measures."""
    steady_load.prepare(quick, seed)
