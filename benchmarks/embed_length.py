"""Queries at once within an SLO, by their length: what offloading still adds. (WindVE fig. 5)

The two lanes of `embed-concurrency` with MiniLM, both busy, fitted for queries of 16 to 256 tokens
(the model's length) by at most 15 bursts each. `additional` is what the slow lane adds to the
`original` of the fast one; in the headline the additional queries are by length and SLO.
"""

from dataclasses import asdict, dataclass

from benchmarks.support.lane_pair import LanePair
from heddle.app.profiling.lane_depths import fit_lanes


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run."""

    lengths: tuple[int, ...]
    probes_max: int
    pair: LanePair
    slos_s: tuple[float, ...] = (0.25, 0.5)


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run all; returns settings, one row for each length and SLO, and the headline."""
    lengths, probes_max = ((16, 128), 6) if quick else ((16, 32, 64, 128, 256), 15)
    settings = Settings(lengths, probes_max, LanePair.here())
    fast, slow = settings.pair.names
    rows = []
    with settings.pair.started() as live:
        for length in settings.lengths:
            fits = fit_lanes(live.probes, settings.slos_s, length, settings.probes_max)
            for slo_s in settings.slos_s:
                row = {
                    "length": length,
                    "slo_s": slo_s,
                    "original": fits[fast].depths[slo_s],
                    "additional": fits[slow].depths[slo_s],
                }
                print(
                    f"{length:>4} tokens, SLO {slo_s * 1e3:g} ms: {row['original']} on {fast}, "
                    f"{row['additional']} more on {slow}"
                )
                rows.append(row)
    headline = {
        f"additional_{row['length']}_{row['slo_s'] * 1e3:g}ms": row["additional"] for row in rows
    }
    return {"settings": asdict(settings), "rows": rows, "headline": headline}
