"""The name of a server's LLM, by which clients ask for it and replies name it."""

from pathlib import Path

from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.models.model_source import installed_models, is_made
from heddle.app.server_config import ServerConfig
from heddle.engines.remote.probe import shown_name


def llm_name(config: ServerConfig, plan: ServerPlan) -> str:
    """Return the plain name of a server's LLM; empty = it has none.

    It is the name by which it was asked for, or that of its directory. A model that another server
    runs has its name there.
    """
    remote = plan.remote.generator
    if remote is not None:
        return shown_name(remote.first.model)
    if plan.generator is None:
        return ""
    given = str(config.generator)
    is_name = is_made(given) or given in installed_models()
    is_of_hub = given.count("/") == 1 and not given.startswith((".", "/", "~"))
    if is_name or (is_of_hub and not Path(given).is_dir()):
        return given
    return plan.generator.name
