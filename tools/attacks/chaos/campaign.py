"""Faults against one configuration, one after the other, while clients ask."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TypeAlias

from tools.attacks.chaos.crowd import Crowd
from tools.attacks.chaos.ledger import Ledger
from tools.attacks.chaos.scene import Scene
from tools.attacks.configuration import Configuration
from tools.attacks.ground import Ground
from tools.attacks.served import Served, ServedError

Fault: TypeAlias = Callable[[Scene], None]
"""Strikes once, and leaves a server that answers."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """One configuration after all its faults.

    Attributes:
        configuration: how its servers were started.
        ledger: of its requests.
        faults: how often each fault struck.
        exits: how often a server ended with the right code, and with another.
        kill_pauses_s, freeze_pauses_s, head_pauses_s: from a fault to the next answer [s].
        start_s: what a start took, the model's load included [s].
    """

    configuration: Configuration
    ledger: Ledger
    faults: Counter[str]
    exits: dict[bool, int]
    kill_pauses_s: list[float]
    freeze_pauses_s: list[float]
    head_pauses_s: list[float]
    start_s: float


def shuffled(names: Sequence[str], seed: int) -> list[str]:
    """Return names in an order that the seed draws."""
    order = list(names)
    random.Random(seed).shuffle(order)
    return order


def campaign(
    ground: Ground,
    configuration: Configuration,
    corpus: Path,
    order: Sequence[str],
    faults: Mapping[str, Fault],
    requests: int,
    seed: int,
) -> Campaign:
    """Start a server and strike with faults while clients ask.

    Args:
        ground: the model.
        configuration: how the servers are started.
        corpus: theirs.
        order: names of faults, some of them several times.
        faults: by name.
        requests: how many the clients send at least.
        seed: of all draws.
    """
    ledger, struck = Ledger(), Counter[str]()
    with ExitStack() as stack:
        server = Served(ground, configuration, corpus)
        scene = Scene(ground, server, ledger, seed)
        stack.callback(_kill, scene)
        with Crowd(server, ledger, seed) as crowd:
            scene.crowd = crowd
            for number, name in enumerate(order, start=1):
                _strike(faults[name], scene)
                struck[name] += 1
                crowd.wait_for(requests * number // len(order))
                print(f"{configuration.name}: {name}, {ledger.requests} requests", flush=True)
            crowd.wait_for(requests)
        scene.check_answers()
        scene.stopped(0)
    return Campaign(
        configuration,
        ledger,
        struck,
        scene.exits,
        scene.kill_pauses_s,
        scene.freeze_pauses_s,
        scene.head_pauses_s,
        server.start_s,
    )


def _strike(fault: Fault, scene: Scene) -> None:
    """Let a fault strike; a server that is gone behind it ends the campaign, with its last words.

    Raises:
        ServedError: the server can't be asked any more.
    """
    try:
        fault(scene)
    except (OSError, HTTPException) as error:
        server = scene.server
        state = "it runs" if server.is_alive else f"it ended with {server.process.returncode}"
        raise ServedError(f"{error}; {state}; its log ends: {server.log[-4_000:]}") from error


def _kill(scene: Scene) -> None:
    if scene.server.is_alive:
        scene.server.kill()
