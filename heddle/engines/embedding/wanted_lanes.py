"""The lanes that a user names: `cpu:0-3,cpu:4-7,cuda:0`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from heddle.core.errors import ConfigError

AUTO: Final = "auto"
CPU: Final = "cpu"
ACCELERATORS: Final = ("cuda", "npu")
LANES_FORM: Final = "auto|LANE[,LANE...]"
LANES_MAX: Final = 64  # each is a process with a copy of the model
CORE_MAX: Final = 1 << 16  # no range is longer than the machines that Linux runs on
_FORMS: Final = "cpu:0-3, cpu:0-3+8-11, cuda:0 or npu:0"
_RANGE: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class WantedLane:
    """One lane: an accelerator as torch names it, or cores of the CPU in ascending order."""

    device: str
    cores: tuple[int, ...] = ()

    @property
    def is_cpu(self) -> bool:
        """Whether it runs on cores."""
        return self.device == CPU


def wanted_lanes(text: str) -> tuple[WantedLane, ...] | None:
    """Return the lanes of a text, in its order; None = "auto", the plan decides.

    Whether the machine has these cores and devices is known where the server is planned.

    Raises:
        ConfigError: the text has another form, or names a core or a device twice.
    """
    if text.strip() == AUTO:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > LANES_MAX:
        raise ConfigError(f"embedding_lanes names {len(parts)} lanes; at most {LANES_MAX}")
    lanes = tuple(_lane(part, text) for part in parts)
    _check_apart(lanes)
    return lanes


def _lane(part: str, text: str) -> WantedLane:
    kind, _, where = part.partition(":")
    if kind == CPU and where:
        return WantedLane(CPU, tuple(sorted(_cores(where, text))))
    if kind in ACCELERATORS and where.isascii() and where.isdigit():
        return WantedLane(f"{kind}:{int(where)}")
    hint = ""
    if part.replace("-", "").isdigit():
        hint = "; a comma begins a new lane, so join the cores of one lane with +"
    raise ConfigError(
        f"embedding_lanes is {text!r:.200}: {part!r:.40} is no lane; write each as {_FORMS}{hint}"
    )


def _cores(where: str, text: str) -> Iterator[int]:
    for piece in where.split("+"):
        match = _RANGE.fullmatch(piece.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else -1
        if not first <= last < CORE_MAX:
            raise ConfigError(
                f"embedding_lanes is {text!r:.200}: {piece!r:.40} is no range of cores; write the "
                "lower one first, such as 0-3"
            )
        yield from range(first, last + 1)


def _check_apart(lanes: tuple[WantedLane, ...]) -> None:
    """Refuse a core or a device that is named twice: lanes would wait for each other."""
    seen: set[str] = set()
    for lane in lanes:
        names = [f"core {core}" for core in lane.cores] if lane.is_cpu else [lane.device]
        for name in names:
            if name in seen:
                raise ConfigError(f"embedding_lanes names {name} twice: name it in one lane only")
            seen.add(name)
