"""Queries at once within an SLO, by their length: what offloading still adds. (WindVE fig. 5)

The two lanes of `embed-concurrency` with MiniLM, both busy, fitted for queries of 16 to 256 tokens
(the model's length) by at most 15 bursts each. `additional_*` is what the slow lane adds.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from benchmarks.support.lane_depths import Fitted, fit_lane
from benchmarks.support.live_lanes import LiveLanes, embedding_lane


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run."""

    lengths: tuple[int, ...]
    probes_max: int
    slos_s: tuple[float, ...] = (0.25, 0.5)
    dtypes: tuple[str, str] = ("bfloat16", "float32")


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run all; returns settings, one row for each length and SLO, and the headline."""
    settings = Settings((16, 128), 6) if quick else Settings((16, 32, 64, 128, 256), 15)
    lanes = [embedding_lane(dtype, dtype, cpu) for cpu, dtype in enumerate(settings.dtypes)]
    rows = []
    with LiveLanes(lanes) as live:
        for length in settings.lengths:
            fits = _fit_both(live, settings, length)
            fast, slow = sorted(fits, key=lambda fit: fit.latency_slope_s)
            for slo_s in settings.slos_s:
                row = {
                    "length": length,
                    "slo_s": slo_s,
                    "original": fast.depths[slo_s],
                    "additional": slow.depths[slo_s],
                }
                print(
                    f"{length:>4} tokens, SLO {slo_s * 1e3:g} ms: {row['original']} on the fast "
                    f"lane, {row['additional']} more on the slow one"
                )
                rows.append(row)
    headline = {
        f"additional_{row['length']}_{row['slo_s'] * 1e3:g}ms": row["additional"] for row in rows
    }
    return {"settings": asdict(settings), "rows": rows, "headline": headline}


def _fit_both(live: LiveLanes, settings: Settings, length: int) -> list[Fitted]:
    with ThreadPoolExecutor(len(live.ports)) as pool:
        futures = [
            pool.submit(fit_lane, live.probe(i), settings.slos_s, length, settings.probes_max)
            for i in range(len(live.ports))
        ]
        return [future.result() for future in futures]
