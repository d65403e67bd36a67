"""What users add to a server: passes and engines of their own, checked before anything starts."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from heddle.core.credits import Credits
from heddle.core.errors import ConfigError
from heddle.core.ports import EnginePort, SteppedEngine
from heddle.core.primitives import PrimitiveKind
from heddle.hosts.result_check import RESULTS
from heddle.passes.runner import (
    CYCLE_PASSES,
    GRAPH_PASSES,
    REQUESTED_PASSES,
    CyclePass,
    GraphPass,
)

CREDITS_DEFAULT: Final = 64
CREDITS_MAX: Final = 4096
_PORT: Final = ("send", "frames", "subscribe")
_STEPPED: Final = ("apply", "step", "predicted_step_s")


@dataclass(frozen=True, slots=True)
class OwnEngine:
    """An engine of yours that a thread of the server steps.

    Args:
        engine: what carries primitives out.
        credits_total: rows (texts, queries, passages, calls) that it may hold at once.

    Example:
        from examples.own_engine import WordRanker
        from heddle import OwnEngine, Server

        own = OwnEngine(WordRanker(), credits_total=8)
        with Server(None, "corpus", engines=[own]) as server:
            found = server.search("Who founded Oak Mill?", topk=1, rerank=True)
            print(found.passages[0].title, found.passages[0].score)  # mill 3.0
    """

    engine: SteppedEngine
    credits_total: int = CREDITS_DEFAULT


@dataclass(frozen=True, slots=True)
class Extensions:
    """Passes and engines beside Heddle's own; see docs/guide/extending.md.

    Args:
        graph_passes: run behind Heddle's, in this order.
        cycle_passes: likewise.
        ports: engines that bring a port of their own.
        engines: those that the server has to step.

    Example:
        from examples.own_pass import ShareEmbeddings, near_and_far
        from heddle import Extensions, Server, ServerConfig

        own = Extensions.of(passes=[ShareEmbeddings()])
        with Server.from_config(ServerConfig("reader", "corpus"), extensions=own) as server:
            answer = server.app(near_and_far()).invoke("In which year was Oak Mill founded?")
            print(answer.receipt.passes)  # ('prune_dependencies', 'share_embeddings')
    """

    graph_passes: tuple[GraphPass, ...] = ()
    cycle_passes: tuple[CyclePass, ...] = ()
    ports: tuple[EnginePort, ...] = ()
    engines: tuple[OwnEngine, ...] = ()

    @classmethod
    def of(cls, passes: Sequence[object] = (), engines: Sequence[object] = ()) -> Self:
        """Sort passes and engines by kind, and check what can be known of them before they run.

        Raises:
            ConfigError: one can't be used; the message names its place, the field and the fix.
        """
        _check_names("passes", passes, {one.name for one in ALL_PASSES})
        for place, one in enumerate(passes):
            _check_pass(f"passes[{place}]", one)
        hosted = [one if isinstance(one, OwnEngine) else OwnEngine(_any(one)) for one in engines]
        _check_names("engines", [one.engine for one in hosted], set())
        for place, own in enumerate(hosted):
            _check_engine(f"engines[{place}]", own)
        return cls(
            tuple(_any(one) for one in passes if _extends(one, GraphPass)),
            tuple(_any(one) for one in passes if _extends(one, CyclePass)),
            tuple(_any(own.engine) for own in hosted if _has(own.engine, _PORT)),
            tuple(own for own in hosted if not _has(own.engine, _PORT)),
        )

    @property
    def all_graph_passes(self) -> tuple[GraphPass, ...]:
        """Heddle's and these."""
        return (*GRAPH_PASSES, *self.graph_passes)

    @property
    def all_cycle_passes(self) -> tuple[CyclePass, ...]:
        """Heddle's and these."""
        return (*CYCLE_PASSES, *self.cycle_passes)

    @property
    def all_passes(self) -> tuple[GraphPass | CyclePass, ...]:
        """Everything that can be left out by name."""
        return (*ALL_PASSES, *self.graph_passes, *self.cycle_passes)


ALL_PASSES: Final[tuple[GraphPass | CyclePass, ...]] = (
    *GRAPH_PASSES,
    *REQUESTED_PASSES,
    *CYCLE_PASSES,
)
NO_EXTENSIONS: Final = Extensions()


def _any(value: object) -> Any:  # noqa: ANN401 - checked field by field
    return value


def _extends(value: object, kind: type) -> bool:
    """Whether a class names a protocol as its base: both kinds of pass look alike otherwise."""
    return kind in type(value).__mro__


def _has(value: object, names: Sequence[str]) -> bool:
    return all(callable(getattr(value, name, None)) for name in names)


def _check_names(field: str, named: Sequence[object], taken: set[str]) -> None:
    for place, one in enumerate(named):
        if isinstance(one, type):
            raise ConfigError(f"{field}[{place}] is a class: give an object, {one.__name__}()")
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not name.isidentifier():
            raise ConfigError(
                f"{field}[{place}].name must be a plain name such as 'my_pass', got {name!r:.40}"
            )
        if name in taken:
            raise ConfigError(f"{field}[{place}].name: {name!r} is taken: give it another one")
        taken.add(name)


def _check_pass(place: str, one: object) -> None:
    kinds = [kind for kind in (GraphPass, CyclePass) if _extends(one, kind)]
    if len(kinds) != 1 or getattr(type(one), "apply", None) is kinds[0].apply:
        raise ConfigError(
            f"{place} is {type(one).__name__}: write it as `class {type(one).__name__}"
            "(heddle.GraphPass)` or `(heddle.CyclePass)`, with a method apply"
        )


def _check_engine(place: str, own: OwnEngine) -> None:
    engine = own.engine
    kinds = getattr(engine, "kinds", None)
    allowed = ", ".join(kind.name for kind in RESULTS)
    if not isinstance(kinds, frozenset) or not kinds:
        raise ConfigError(f"{place}.kinds must be a frozenset of PrimitiveKind: {allowed}")
    for kind in kinds:
        if not isinstance(kind, PrimitiveKind) or kind not in RESULTS:
            raise ConfigError(
                f"{place}.kinds has {getattr(kind, 'name', kind)!s:.40}; an engine of your own can "
                f"have {allowed}. A model that writes is generator=URL#NAME"
            )
    if _has(engine, _PORT):
        credits = getattr(engine, "credits", None)
        if not isinstance(credits, Credits):
            raise ConfigError(f"{place}.credits must be a Credits, got {credits!r:.40}")
        _check_count(f"{place}.credits.total", credits.total)
        if not isinstance(getattr(engine, "epoch", None), int):
            raise ConfigError(f"{place}.epoch must be an integer: 1, one more with each restart")
        return
    _check_count(f"{place}.credits_total", own.credits_total)
    if not hasattr(type(engine), "has_work") and not hasattr(engine, "has_work"):
        raise ConfigError(f"{place}.has_work is missing: say whether a step would do something")
    if callable(inspect.getattr_static(engine, "has_work", None)):
        raise ConfigError(
            f"{place}.has_work must be a property: write @property above it; a method counts as "
            "true, so the engine would be stepped without end"
        )
    for name in _STEPPED:
        if not callable(getattr(engine, name, None)):
            raise ConfigError(
                f"{place}.{name} is missing: an engine has {', '.join(_STEPPED)} and has_work (a "
                f"SteppedEngine), or {', '.join(_PORT)}, credits and epoch (an EnginePort)"
            )


def _check_count(field: str, value: object) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= CREDITS_MAX
    if not is_count:
        raise ConfigError(f"{field} must be an integer from 1 to {CREDITS_MAX}, got {value!r:.40}")
