"""Which passes a server runs: one place for the server and for what explains it."""

from dataclasses import replace

from heddle.app.extensions import NO_EXTENSIONS, Extensions
from heddle.app.server_config import ServerConfig
from heddle.core.ports import Clock
from heddle.passes.runner import PassRunner
from heddle.passes.split_substages import SplitSubstages


def pass_runner(
    config: ServerConfig, clock: Clock, extensions: Extensions = NO_EXTENSIONS
) -> PassRunner:
    """Return the passes of a server with this configuration and these extensions."""
    # Searches are replayed in the order that the engines serve them in.
    cycle_passes = tuple(
        replace(one, order=config.call_order) if isinstance(one, SplitSubstages) else one
        for one in extensions.all_cycle_passes
    )
    return PassRunner(
        clock,
        graph_passes=extensions.all_graph_passes,
        cycle_passes=cycle_passes,
        disabled=config.disabled_passes,
        on_failure=config.on_pass_failure,
    )
