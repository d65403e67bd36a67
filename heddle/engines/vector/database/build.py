"""How a lane gets the engine that has the corpus's database search, inside the lane."""

from heddle.core.errors import ConfigError
from heddle.corpus.place import CorpusPlace
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_index import SearchEffort, VectorIndexKind
from heddle.engines.vector.database.database_searches import PRIOR_S, DatabaseSearches, unused_by
from heddle.engines.vector.database.search import DatabaseSearch
from heddle.engines.vector.database.searched_database import SearchedDatabase
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.perf_clock import PerfClock


def build_engine(
    name: str, epoch: int, place: CorpusPlace, effort: SearchEffort, substage_budget_s: float
) -> SearchEngine[DatabaseSearch]:
    """Open a corpus, and return an engine that has its database search.

    Args:
        name: the lane's.
        epoch: the lane's.
        place: where the corpus is.
        effort: how far a search goes that doesn't say.
        substage_budget_s: time for one step where the runtime doesn't say [s].

    Raises:
        ConfigError: there is no index inside the database.
        HeddleError: the corpus can't be opened.
    """
    source = CorpusStore.open(place)
    try:
        if source.vector_index is None:
            raise ConfigError(f"{place}: only a corpus in PostgreSQL has an index inside it")
        kind = source.vector_index.ready_kind()
        database = SearchedDatabase(source, source.vector_index, effort)
    except BaseException:
        source.close()
        raise
    return SearchEngine(
        name,
        epoch,
        PerfClock(),
        lambda tasks: DatabaseSearches(tasks, database, kind),
        database,
        substage_budget_s=substage_budget_s,
        prior_s=PRIOR_S,
        notes=_unused(kind, effort),
    )


def _unused(kind: VectorIndexKind, effort: SearchEffort) -> tuple[str, ...]:
    """Return what of the lane's own effort the index has no use for, as each receipt names it."""
    name, value = ("nprobe", effort.lists) if kind.is_graph else ("topm", effort.candidates)
    return () if value is None else (unused_by(kind, name),)
