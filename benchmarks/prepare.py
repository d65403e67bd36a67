"""Build once what full benchmark runs need: the baselines' environment and the wiki index.

Everything lands in the cache ($HEDDLE_CACHE, else the user's cache folder), keyed by the hash of
what it is made from. Stopped and run again, it goes on. With --quick: only the small index.
"""

import time

from benchmarks.support.baselines import baselines_python
from benchmarks.support.wiki_index import wiki_index


def run(quick: bool, seed: int) -> dict[str, object]:
    """Prepare, and report how long it took, apart from any benchmark."""
    started_s = time.monotonic()
    baselines_python()
    baselines_s = time.monotonic() - started_s
    index = wiki_index(quick)
    index_s = time.monotonic() - started_s - baselines_s
    return {
        "settings": {},
        "rows": [{"index": str(index.directory), "passages": index.passages}],
        "headline": {"baselines_s": baselines_s, "index_s": index_s, "passages": index.passages},
    }
