"""What a lane is made of: its engines, its cores, its threads. Data only; it is pickled."""

import os
from dataclasses import dataclass

from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One engine of a lane.

    Args:
        name: the engine's name, unique in a server.
        factory: "package.module:function", called in the lane as function(name, epoch, settings).
        settings: a picklable frozen dataclass of an importable module.
        credits_total: rows that the engine may hold at once.
        kinds: the primitives it carries out.
    Raises: ConfigError: factory is not of that form, or a value can't be used.
    """

    name: str
    factory: str
    settings: object
    credits_total: int
    kinds: frozenset[PrimitiveKind]

    def __post_init__(self) -> None:
        module, _, function = self.factory.partition(":")
        if not module or not function.isidentifier():
            raise ConfigError(
                f"EngineSpec.factory of {self.name!r} is {self.factory!r}: "
                "write 'package.module:function'"
            )
        if self.credits_total < 1:
            raise ConfigError(
                f"EngineSpec.credits_total of {self.name!r} is {self.credits_total}: at least 1"
            )
        if type(self.settings).__module__ == "__main__":
            raise ConfigError(
                f"EngineSpec.settings of {self.name!r} is a {type(self.settings).__name__} "
                "defined in the main script: move that class to a module the lane can import"
            )


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """One lane: a process with these engines.

    Args:
        name: the lane's name, shown in messages and in its log lines.
        engines: at least one, with distinct names.
        cpus: the cores it is pinned to; empty = wherever the system puts it.
        threads: threads of each numeric library inside the lane.
        memory_node: the NUMA node that its memory is bound to; None = any.
        environment: names and values that its environment has besides this process's.
        borrows: the lane whose cores it may compute on while that is idle; "" = none.
        idle_flag: where it says whether it is idle; "" = it needn't say (`lending`).
        borrowed_flag: where the lane says so that it borrows from; "" = it borrows from none.
        borrowed_cpus: its cores.
        only_scans_borrow: scans of lists alone go there, by threads of their own; else those of the
            numeric libraries do.
    Raises: ConfigError: no engine, a name twice, a core that this process may not use.
    """

    name: str
    engines: tuple[EngineSpec, ...]
    cpus: tuple[int, ...] = ()
    threads: int = 1
    memory_node: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    borrows: str = ""
    idle_flag: str = ""
    borrowed_flag: str = ""
    borrowed_cpus: tuple[int, ...] = ()
    only_scans_borrow: bool = False

    def __post_init__(self) -> None:
        names = [engine.name for engine in self.engines]
        if not names:
            raise ConfigError(f"LaneSpec.engines of lane {self.name!r} is empty: give it an engine")
        if len(set(names)) < len(names):
            raise ConfigError(f"LaneSpec.engines of lane {self.name!r} has a name twice: {names}")
        if self.threads < 1:
            raise ConfigError(
                f"LaneSpec.threads of lane {self.name!r} is {self.threads}: at least 1"
            )
        if self.cpus and hasattr(os, "sched_getaffinity"):
            usable = os.sched_getaffinity(0)
            if not usable.issuperset(self.cpus):
                raise ConfigError(
                    f"LaneSpec.cpus of lane {self.name!r} is {self.cpus}: "
                    f"this process may use {sorted(usable)}"
                )
