"""Embedding on a GPU and a CPU together, and beside an LLM that decodes on the GPU."""

from typing import Final

from benchmarks.gpu.place import Note, Place
from benchmarks.gpu.random_models import (
    BERT_LARGE,
    TINY_ENCODER,
    decoder_directory,
    encoder_directory,
)
from benchmarks.gpu.step_curves import TINY
from benchmarks.support.beside_decoding import CPU, DEVICE, Sizes, headline
from benchmarks.support.device_lanes import DECODER, lane_specs, measure
from benchmarks.support.live_lanes import EMBEDDING_FACTORY, ROWS_MAX, LiveLanes
from heddle.app.profiling.lane_depths import Fitted, fit_lane, fit_lanes
from heddle.core.primitives import PrimitiveKind
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import read_machine

SLOS_S: Final = (0.1, 0.5)
LENGTHS: Final = (64, 256)  # tokens of a query
KEPT_CORES: Final = 2  # of the GPU's lane and of this process
BESIDE: Final = Sizes(6.0, 0.25, (0.5, 1.2), sequences=32, prompt_tokens=256, answer_tokens=256)
BESIDE_SMALL: Final = Sizes(0.4, 0.5, (0.5,), sequences=2, prompt_tokens=16, answer_tokens=16)


def together(place: Place, note: Note) -> dict[str, float]:
    """Find the queue depths of a lane on the GPU and of one on the CPU, alone and together.

    The gain is the CPU's depth over the GPU's: by how much more queries are answered in time.
    """
    slos_s = place.sized(SLOS_S, SLOS_S[-1:])
    found: dict[str, float] = {}
    with LiveLanes(_lanes(place)) as live:
        for length in place.sized(LENGTHS, (16,)):
            probes = place.sized(15, 3)
            alone = {
                port.name: fit_lane(live.probe(index), slos_s, length, probes)
                for index, port in enumerate(live.ports)
            }
            both = fit_lanes(live.probes, slos_s, length, probes)
            for mode, fits in (("alone", alone), ("together", both)):
                for name, fitted in fits.items():
                    note({"lane": name, "mode": mode, "tokens": length, **_row(fitted)})
            for slo_s in slos_s:
                name = f"{round(1e3 * slo_s)}ms_{length}"
                depths = {lane: fitted.depths[slo_s] for lane, fitted in both.items()}
                found |= {f"depth_{lane}_{name}": float(depth) for lane, depth in depths.items()}
                found[f"gain_{name}"] = depths[CPU] / max(1, depths[DEVICE])
    return found


def _row(fitted: Fitted) -> dict[str, object]:
    return {
        "slope_ms": 1e3 * fitted.latency_slope_s,
        "intercept_ms": 1e3 * fitted.latency_intercept_s,
        "depths": {str(slo_s): depth for slo_s, depth in fitted.depths.items()},
        "seconds": fitted.seconds,
    }


def _lanes(place: Place) -> list[LaneSpec]:
    """Return a lane on the device with one thread, and one on the cores that are left."""
    model = str(encoder_directory(place.sized(BERT_LARGE, TINY_ENCODER)))
    cores = place.sized(max(1, read_machine().cores - KEPT_CORES), 1)
    dtype = str(place.dtype).removeprefix("torch.")
    lanes = []
    for name, device, threads in ((DEVICE, place.device.type, 1), (CPU, "cpu", cores)):
        settings = EmbeddingSettings(model, dtype, device, threads=threads, cache_bytes=0)
        kinds = frozenset({PrimitiveKind.EMBEDDING})
        engine = EngineSpec(name, EMBEDDING_FACTORY, settings, ROWS_MAX, kinds)
        lanes.append(LaneSpec(name, (engine,), threads=threads))
    return lanes


def beside_decoding(place: Place, note: Note) -> dict[str, float]:
    """Embed on the GPU with and without a CPU lane, while the GPU is idle and while it decodes."""
    sizes = place.sized(BESIDE, BESIDE_SMALL)
    encoder = encoder_directory(place.sized(BERT_LARGE, TINY_ENCODER))
    decoder = decoder_directory(place.sized(DECODER, TINY), place.sized(2048, 512), place.dtype)
    dtype = str(place.dtype).removeprefix("torch.")
    specs = lane_specs(place.device.type, dtype, sizes, encoder, decoder, read_machine())
    rows = measure(specs, sizes, seed=0)
    for row in rows:
        note(row)
    return headline(rows)
