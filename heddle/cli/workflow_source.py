"""From a workflow's name on the command line to the workflow: ready-made, or FILE.py:NAME."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from heddle.core.errors import HeddleError, InputError, WorkflowError
from heddle.workflow.function import WorkflowFunction
from heddle.workflow.presets import PRESETS, preset
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.searches import with_searches
from heddle.workflow.workflow import Workflow

WORKFLOW_HELP: Final = (
    f"one of {', '.join(PRESETS)}, or FILE.py:NAME, a RAGraph or a workflow function"
)


def load_workflow(name: str, topk: int | None = None) -> Workflow:
    """Return a workflow.

    Args:
        name: a ready-made one's, or FILE.py:NAME of a RAGraph in the user's file.
        topk: passages of each of its searches; None = as the workflow has it.

    Raises:
        WorkflowError: no such workflow, the file raises, or NAME is no RAGraph in it.
        InputError: the file isn't there; `topk` is out of range, or nothing searches.
    """
    workflow = preset(name).compile() if name in PRESETS else _from_file(name)
    if topk is not None and workflow.function is not None:
        raise InputError(f"topk: workflow {name!r} is a function: set topk in its calls")
    return with_searches(workflow, topk=topk)


def _from_file(name: str) -> Workflow:
    file, _, attribute = name.rpartition(":")
    if not file:
        raise WorkflowError(
            f"workflow {name!r} is unknown; there are {', '.join(PRESETS)}, "
            "and FILE.py:NAME for a RAGraph of yours"
        )
    graphs = {
        key: value
        for key, value in vars(_module(name, Path(file))).items()
        if isinstance(value, RAGraph | WorkflowFunction | Workflow)
    }
    if attribute not in graphs:
        raise WorkflowError(
            f"workflow {name!r}: {attribute!r} is no RAGraph in {file!r}; "
            f"there {'are ' + ', '.join(graphs) if graphs else 'is none'}"
        )
    graph = graphs[attribute]
    return graph if isinstance(graph, Workflow) else graph.compile()


def _module(name: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"workflow {name!r}: there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"workflow {name!r}: {str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # As for a script: what lies beside the file can be imported.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except HeddleError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise WorkflowError(f"workflow {name!r}: {type(error).__name__}: {error}") from error
    return module
