"""Build once what full benchmark runs need: baselines, the wiki index, and indexes beside it.

These are the baselines' environment, the graphs of other libraries over the wiki index, an index of
a million synthetic vectors, one of codes as a corpus saves it, the heavy corpora of `workflows` and
its store of chunk KV (4,096 chunks, by far the longest part), the searches that `speculation`
replays, and the medical passages.

Everything lands in the cache ($HEDDLE_CACHE, else the user's cache folder), keyed by the hash of
its ingredients. Stopped and run again, it goes on. With --quick: only the small index.
"""

import resource
import time

from benchmarks import index_growth, ivf_modes, locality, speculation, substage, workflows
from benchmarks.support.baselines import baselines_python
from benchmarks.support.wiki_index import wiki_index


def run(quick: bool, seed: int) -> dict[str, object]:
    """Prepare, and report how long it took, apart from any benchmark."""
    started_s = time.monotonic()
    baselines_python()
    baselines_s = time.monotonic() - started_s
    index = wiki_index(quick)
    index_s = time.monotonic() - started_s - baselines_s
    ivf_modes.prepare(quick)
    substage.prepare(quick, seed)
    workflows.prepare(quick, seed)
    speculation.prepare(quick, seed)
    if not quick:
        locality.prepare()
        index_growth.prepare(seed)
    others_s = time.monotonic() - started_s - baselines_s - index_s
    headline = {
        "baselines_s": baselines_s,
        "index_s": index_s,
        "others_s": others_s,
        "passages": index.passages,
        "peak_mib": _peak_bytes() / (1 << 20),
    }
    rows = [{"index": str(index.directory), "passages": index.passages}]
    return {"settings": {}, "rows": rows, "headline": headline}


def _peak_bytes() -> int:
    """Return the most memory of this process plus that of its largest child (the lane)."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_maxrss for usage in usages) * 1024  # Linux counts KiB
