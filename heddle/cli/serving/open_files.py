"""How many files and connections a server may have open."""

import logging
import resource
from typing import Final

OWN_FILES: Final = 256  # lanes, the corpus, its index, libraries, a database's connections
log = logging.getLogger(__name__)


def allow_open_files(connections: int) -> None:
    """Let this process have this many connections open beside its own files.

    Most systems start a process with 1,024 files and let it ask for more. Where it may not have
    enough, a warning says so: beyond that the system refuses connections, and no bound of the
    server is reached that would close idle ones.
    """
    wanted = connections + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    given = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if given > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (given, hard))
    if given < wanted:
        log.warning(
            "%d files may be open at once, and %d connections need %d: raise the limit (ulimit -n, "
            "LimitNOFILE=), or lower --limit-concurrency",
            given,
            connections,
            wanted,
        )
