"""All faults against one configuration, one after the other, while clients ask."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tools.attacks.chaos.crowd import Crowd
from tools.attacks.chaos.faults import FAULTS, fill_disk
from tools.attacks.chaos.ledger import Ledger
from tools.attacks.chaos.scene import Scene
from tools.attacks.chaos.small_disk import small_disk
from tools.attacks.configuration import Configuration
from tools.attacks.ground import Ground
from tools.attacks.served import Served


@dataclass(frozen=True, slots=True)
class Campaign:
    """One configuration after all its faults.

    Attributes:
        configuration: how its servers were started.
        ledger: of its requests.
        faults: how often each fault struck.
        exits: how often a server ended with the right code, and with another.
        kill_pauses_s, freeze_pauses_s: from a lane's fault to the next answer [s].
        start_s: what a start took, the model's load included [s].
    """

    configuration: Configuration
    ledger: Ledger
    faults: Counter[str]
    exits: dict[bool, int]
    kill_pauses_s: list[float]
    freeze_pauses_s: list[float]
    start_s: float


def campaign(
    ground: Ground, configuration: Configuration, names: Sequence[str], requests: int, seed: int
) -> Campaign:
    """Strike with all named faults, in an order that the seed draws, while clients ask.

    Args:
        ground: corpora and the model.
        configuration: how the servers are started.
        names: faults, some of them several times.
        requests: how many the clients send at least.
        seed: of all draws.
    """
    order = list(names)
    random.Random(seed).shuffle(order)
    ledger, struck = Ledger(), Counter[str]()
    with ExitStack() as stack:
        corpus = _corpus(ground, configuration, order, stack)
        server = Served(ground, configuration, corpus)
        scene = Scene(ground, server, ledger, seed)
        stack.callback(_kill, scene)
        with Crowd(server, ledger, seed) as crowd:
            scene.crowd = crowd
            for number, name in enumerate(order, start=1):
                FAULTS[name](scene)
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
        server.start_s,
    )


def _corpus(
    ground: Ground, configuration: Configuration, order: list[str], stack: ExitStack
) -> Path:
    """Return a corpus on a small disk where one can be filled. Mutates: order, where none can."""
    name = next(name for name, fault in FAULTS.items() if fault is fill_disk)
    if name not in order:
        return ground.corpus(configuration.index_kind)
    folder = ground.new_folder()
    if failure := stack.enter_context(small_disk(folder)):
        print(f"{configuration.name}: no {name}: {failure}", flush=True)
        order[:] = [other for other in order if other != name]
    return ground.corpus(configuration.index_kind, folder / "corpus")


def _kill(scene: Scene) -> None:
    if scene.server.is_alive:
        scene.server.kill()
