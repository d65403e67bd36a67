"""Who makes a call where another program drives: the run of it, the node, and what follows."""

import re
from dataclasses import dataclass
from typing import Final

from heddle.core.errors import InputError

RUN_CHARS_MAX: Final = 128
NODE_CHARS_MAX: Final = 128
DEPTH_MAX: Final = 1 << 12
_RUN: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{RUN_CHARS_MAX}}}")


@dataclass(frozen=True, slots=True)
class Caller:
    """A node of a program that calls the engine several times for one run.

    The calls of a run count as one request wherever requests are ranked by their age.

    Args:
        run: the id of the run: 1 to 128 letters, digits and . _ : -
        node: the node that calls; "" = unknown.
        depth: steps of the program that follow this call on the longest way to its end.

    Raises:
        InputError: a value can't be used; the message names it.
    """

    run: str
    node: str = ""
    depth: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not _RUN.fullmatch(self.run):
            raise InputError(
                f"run must have 1 to {RUN_CHARS_MAX} letters, digits and . _ : -, "
                f"got {self.run!r:.40}",
                param="run",
            )
        is_node = isinstance(self.node, str) and len(self.node) <= NODE_CHARS_MAX
        if not is_node or not (self.node.isprintable() or not self.node):
            raise InputError(
                f"node must have at most {NODE_CHARS_MAX} printable characters, "
                f"got {self.node!r:.40}",
                param="node",
            )
        if isinstance(self.depth, bool) or not isinstance(self.depth, int):
            raise InputError(f"depth must be an integer, got {self.depth!r:.40}", param="depth")
        if not 0 <= self.depth <= DEPTH_MAX:
            raise InputError(
                f"depth must be from 0 to {DEPTH_MAX}, got {self.depth}", param="depth"
            )
