"""Whether an engine can be saved with the component that calls it."""

from heddle.core.errors import ConfigError


def saved_engine(engine: object) -> str:
    """Return the address of a component's engine, which can be written into a file.

    Raises:
        ConfigError: it is a server of this process, which no file can name.
    """
    if isinstance(engine, str):
        return engine
    raise ConfigError(
        "engine: a heddle.Server of this process can't be saved: give the component the address "
        "of a running server, such as 'http://127.0.0.1:8321'"
    )
