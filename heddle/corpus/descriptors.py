"""Waiting for sockets and pipes."""

import select


def is_readable(*descriptors: int, wait_s: float | None) -> bool:
    """Wait until a descriptor has something to read, or its other end is closed.

    Args:
        descriptors: of sockets or pipes; any number, as `select` takes none above 1,023.
        wait_s: how long at most [s]; None = as long as it takes.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if wait_s is None else 1000 * wait_s))
