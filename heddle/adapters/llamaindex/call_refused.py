"""Refusals that LlamaIndex lets through."""

from collections.abc import Iterator
from contextlib import contextmanager

from heddle.core.errors import HeddleError


class CallRefused(HeddleError):
    """The LLM can't be asked so: what an InputError or a ConfigError has said, which is its cause.

    Both are ValueErrors. LlamaIndex's synthesizers take one for a badly formed answer: they log it
    and respond with "Empty Response".
    """


@contextmanager
def refusals() -> Iterator[None]:
    """Raise refusals as CallRefused.

    Raises:
        CallRefused: what is called raises a HeddleError that is a ValueError.
    """
    try:
        yield
    except HeddleError as error:
        if not isinstance(error, ValueError):
            raise
        raise CallRefused(f"{type(error).__name__}: {error}") from error
