"""From a workflow's name on the command line to the workflow: ready-made, or FILE.py:NAME."""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

from heddle.core.errors import ConfigError, HeddleError, InputError, WorkflowError
from heddle.workflow.connectors import NO_CONNECTORS, WEB_SEARCH, Connector, Connectors
from heddle.workflow.function import WorkflowFunction
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.ready_made import READY_MADE, ready_made, unused_connectors
from heddle.workflow.searches import with_searches
from heddle.workflow.workflow import Workflow

MODULE: Final = "heddle_workflow_file_"  # begins a name that no other module has
WORKFLOW_HELP: Final = (
    f"one of {', '.join(READY_MADE)}, or FILE.py:NAME, a RAGraph or a workflow function"
)


def load_workflow(
    name: str, topk: int | None = None, connectors: Connectors = NO_CONNECTORS
) -> Workflow:
    """Return a workflow.

    Args:
        name: a ready-made one's, or FILE.py:NAME of a RAGraph in the user's file.
        topk: passages of each of its searches; None = as the workflow has it.
        connectors: functions that a ready-made one may call, by name.

    Raises:
        WorkflowError: no such workflow, the file raises, or NAME is no RAGraph in it.
        InputError: the file isn't there; `topk` is out of range, or nothing searches.
        ConfigError: it needs a connector that isn't there.
    """
    workflow = ready_made(name, connectors).compile() if name in READY_MADE else _from_file(name)
    if topk is not None and workflow.function is not None:
        raise InputError(f"topk: workflow {name!r} is a function: set topk in its calls")
    return with_searches(workflow, topk=topk)


def load_connectors(sources: Iterable[str]) -> dict[str, Connector]:
    """Return the functions that users name as NAME=FILE.py:FUNCTION, by NAME.

    Raises:
        ConfigError: a source has another form, or no such function is in the file.
        InputError, WorkflowError: the file isn't there, or it raises.
    """
    found: dict[str, Connector] = {}
    for source in sources:
        name, _, place = source.partition("=")
        file, _, function = place.rpartition(":")
        if not name or not file:
            raise ConfigError(f"--connector {source}: write NAME=FILE.py:FUNCTION")
        connector = getattr(_module(place, Path(file)), function, None)
        if not callable(connector):
            raise ConfigError(f"--connector {source}: {function!r} is no function in {file!r}")
        found[name] = connector
    return found


def drawn_workflow(name: str, topk: int | None, connectors: Connectors) -> Workflow:
    """Return a workflow to look at: where a connector isn't there, another stands in for it.

    Raises:
        WorkflowError, InputError: see `load_workflow`.
        ConfigError: a connector is given that the workflow never calls.
    """
    if unused := unused_connectors(name, connectors):
        raise ConfigError(
            f"--connector {unused[0]}: workflow {name!r} never calls it: leave it out, or choose "
            f"--workflow agent, which calls any, or search_engine, which calls {WEB_SEARCH!r}"
        )
    try:
        return load_workflow(name, topk, connectors)
    except ConfigError:
        return load_workflow(name, topk, {WEB_SEARCH: _no_connector, **connectors})


def check_connectors(name: str, connectors: Connectors) -> None:
    """Refuse to run a workflow that was only drawn.

    Raises:
        ConfigError: a connector isn't there; the message says how to supply it.
    """
    if name in READY_MADE:
        ready_made(name, connectors)


def _no_connector(_: str) -> object:
    """Stands for a function of yours."""
    raise ConfigError("this workflow was made to be looked at")


def _from_file(name: str) -> Workflow:
    file, _, attribute = name.rpartition(":")
    if not file:
        raise WorkflowError(
            f"workflow {name!r} is unknown; there are {', '.join(READY_MADE)}, "
            "and FILE.py:NAME for a RAGraph of yours"
        )
    names = vars(_module(name, Path(file)))
    graphs = {
        key: value
        for key, value in names.items()
        if isinstance(value, RAGraph | WorkflowFunction | Workflow)
    }
    if inspect.iscoroutinefunction(names.get(attribute)):
        raise WorkflowError(
            f"workflow {name!r}: {attribute!r} is a function without its decorator: write "
            "@as_workflow above it"
        )
    if attribute not in graphs:
        raise WorkflowError(
            f"workflow {name!r}: {attribute!r} is no RAGraph and no workflow function in {file!r}; "
            f"there {'are ' + ', '.join(graphs) if graphs else 'is none'}"
        )
    graph = graphs[attribute]
    return graph if isinstance(graph, Workflow) else graph.compile()


def _module(name: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"workflow {name!r}: there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(f"{MODULE}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"workflow {name!r}: {str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # As for a script: what lies beside the file can be imported.
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[spec.name] = module  # where a dataclass looks its annotations up
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # the user's code may raise anything, or call sys.exit()
        del sys.modules[spec.name]
        if isinstance(error, HeddleError) or not isinstance(error, Exception | SystemExit):
            raise
        where = _line(error, spec.origin)
        raise WorkflowError(f"workflow {name!r}{where}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, file: str | None) -> str:
    """Return the newest line of a file that an error came through; empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""
