"""What orchestration itself costs: CPU of a four-step HyDE request on engines that answer at once.

Heddle's runtime beside LangGraph, Haystack and LlamaIndex Workflows, each in a process of its
own, 32 requests at a time; plain asyncio is the floor. The engines are the same fakes for all.
`heddle_process_ms` is this process's CPU for a request on real process lanes that stream 64
tokens one by one. Contenders run in turns; the figures are medians.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.contenders.process_lane import streamed_request_ms
from benchmarks.support.baselines import baselines_python
from heddle.core.errors import EngineError

CONCURRENCY = 32
ROOT = Path(__file__).parents[1]
CONTENDERS = {
    "heddle": ("heddle_hyde", False),
    "asyncio": ("plain_asyncio", False),
    "langgraph": ("langgraph_hyde", True),
    "haystack": ("haystack_hyde", True),
    "llamaindex": ("llamaindex_hyde", True),
}


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure all contenders in turns."""
    repetitions, requests = (1, 160) if quick else (7, 960)
    rows: list[dict[str, float]] = []
    for _ in range(repetitions):
        rows.append({name: _measure(name, requests) for name in CONTENDERS})
        print("  ".join(f"{name} {ms:.3f} ms" for name, ms in rows[-1].items()), flush=True)
    process_ms = streamed_request_ms(requests // 8)
    headline = {f"{n}_ms": statistics.median(row[n] for row in rows) for n in CONTENDERS}
    return {
        "settings": {
            "requests": requests,
            "concurrency": CONCURRENCY,
            "repetitions": repetitions,
            "started_at": time.strftime("%Y-%m-%d"),
        },
        "rows": rows,
        "headline": {**headline, "heddle_process_ms": process_ms},
    }


def _measure(name: str, requests: int) -> float:
    module, is_baseline = CONTENDERS[name]
    python = str(baselines_python()) if is_baseline else sys.executable
    quiet = {
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "LANGSMITH_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [python, "-m", f"benchmarks.contenders.{module}", str(requests), str(CONCURRENCY)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **quiet},
        check=False,
    )
    if done.returncode:
        raise EngineError(done.stderr[-800:], engine=name, request_ids=())
    return float(json.loads(done.stdout.strip().splitlines()[-1])["ms"])
