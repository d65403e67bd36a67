"""`heddle serve` over FAISS's index of a benchmark: `heddle_server.py CORPUS INDEX NPROBE`.

Its lanes are those of any server but for the vectors that are searched.
"""

import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.contenders.uvicorn_process import serve_app
from benchmarks.coscheduling.heavy_index import HeavySettings
from heddle.app.assembly import start
from heddle.app.assembly.lanes import VECTOR, lane_specs
from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.server import Server
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.server.bounded_connection import BoundedConnection
from heddle.server.http import create_app

FACTORY = "benchmarks.coscheduling.heavy_index:build_engine"


def main(corpus: Path, index: Path, nprobe: int) -> None:
    """Serve until the process is ended."""

    def specs(plan: ServerPlan) -> tuple[LaneSpec, ...]:
        def serving(engine: EngineSpec) -> EngineSpec:
            if engine.name != VECTOR:
                return engine
            settings = HeavySettings(
                index,
                plan.placement.retrieval_threads,
                plan.config.call_order,
                speculates=plan.search.speculates,
                nprobe=nprobe,
            )
            return replace(engine, factory=FACTORY, settings=settings)

        lanes = lane_specs(plan)
        return tuple(replace(one, engines=tuple(map(serving, one.engines))) for one in lanes)

    start.lane_specs = specs
    # By itself such a server makes no guesses: the index is flat, the corpus's own is not.
    options = {"dtype": "float32", "reranker": None, "speculate": "never"}
    with Server("reader", corpus, **options) as server:
        serve_app(create_app(server, {}), http=BoundedConnection, lifespan="off")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
