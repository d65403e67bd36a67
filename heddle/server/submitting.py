"""From a request's body to its handle: the workflow by its name, admitted off the event loop."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from heddle.app.requests.call_identity import current_call
from heddle.app.server import Server
from heddle.core.errors import WorkflowError
from heddle.runtime.handle import Handle
from heddle.workflow.ready_made import READY_MADE, ready_made
from heddle.workflow.workflow import Workflow

log = logging.getLogger(__name__)


def workflow_named(name: str, workflows: Mapping[str, Workflow]) -> Workflow:
    """Return one of a server's workflows.

    Raises:
        WorkflowError: there is none of that name.
        ConfigError: the server lacks a connector of it.
    """
    if name not in workflows:
        if name in READY_MADE:
            ready_made(name)  # its error says which connector the server lacks
        known = ", ".join(workflows)
        raise WorkflowError(f"workflow: {name!r} is unknown; there are {known}")
    return workflows[name]


async def submit(
    server: Server,
    workflow: Workflow,
    inputs: str | Mapping[str, object],
    options: Mapping[str, Any],
) -> Handle:
    """Admit a request as `Server.submit` does, which waits for the runtime's thread.

    So a thread waits, and not the event loop.
    """
    handle = await asyncio.to_thread(partial(server.submit, workflow, inputs, **options))
    identity = current_call()
    if identity is None:
        log.info("it is request %d of the runtime", handle.request_id)
    else:
        node, run = identity.caller.node, identity.caller.run
        words = "it is request %d of the runtime, for node %r of run %s"
        log.info(words, handle.request_id, node, run)
    return handle
