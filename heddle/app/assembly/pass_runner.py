"""Which passes a server runs: one place for the server and for what explains it."""

from heddle.app.server_config import ServerConfig
from heddle.core.ports import Clock
from heddle.passes.runner import PassRunner


def pass_runner(config: ServerConfig, clock: Clock) -> PassRunner:
    """Return the passes of a server with this configuration."""
    return PassRunner(clock, disabled=config.disabled_passes)
