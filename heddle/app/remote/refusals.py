"""What can't be done with remote models, refused by name."""

from collections.abc import Iterator
from typing import Final

from heddle.app.models.remote_name import is_remote
from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.engines.embedding.long_texts import LongTexts
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.workflow import Workflow

# The settings of an LLM that runs in Heddle's own lanes.
OF_OWN_LLM: Final = (
    "kv_reuse",
    "speculate",
    "llm_lanes",
    "attention",
    "weights",
    "kv_cache_bytes",
    "kv_reuse_disk_bytes",
    "context_tokens_max",
    "max_num_batched_tokens",
    "background_step_s",
)
LEFT_OUT: Final = (
    "reuse of chunk KV, prompts computed ahead of their search, drafts from a loop's earlier "
    "texts, the step budget, retrieval while the model writes, and the count of a prompt's tokens "
    "before it is sent"
)


def check_remote_models(config: ServerConfig) -> None:
    """Refuse settings that only models in Heddle's own lanes can follow.

    Raises:
        ConfigError: one is set; the message names all of them.
    """
    fields = fields_of(ServerConfig)
    given = [fields[name].flag for name in _changed(config)] if is_remote(config.generator) else []
    if given:
        raise ConfigError(
            f"{', '.join(given)}: a model that another server runs (--model) can't do that: leave "
            "it out, or name a model that runs in Heddle"
        )
    if is_remote(config.embedder) and config.long_texts is not LongTexts.CUT:
        raise ConfigError(
            "--long-texts: an embedder that another server runs (--embedder) can't read texts in "
            "windows: leave it out, or name an embedder that runs in Heddle"
        )
    if is_remote(config.embedder) and config.embedding_admission == "windve":
        raise ConfigError(
            "--embedding-admission windve: an embedder that another server runs (--embedder) has "
            "no lanes here whose depths could be timed: leave it out, or name an embedder that "
            "runs in Heddle"
        )


def check_remote_request(config: ServerConfig, workflow: Workflow, kv_reuse: KvReuse) -> None:
    """Refuse a request that only an LLM in Heddle's own lanes can carry out.

    Raises:
        ConfigError: the message names the option or the node.
    """
    if not is_remote(config.generator):
        return
    if kv_reuse.is_approximate:
        raise ConfigError(
            f"kv_reuse {kv_reuse.policy.value!r}: a model that another server runs can't reuse "
            "stored chunk KV: leave it out"
        )
    for node in workflow.nodes.values():
        if isinstance(node, GenerationNode) and node.decode_retrieval is not None:
            raise ConfigError(
                f"node {node.id!r} retrieves while it writes, which a model that another server "
                "runs can't do: name a model that runs in Heddle, or another workflow"
            )


def _changed(config: ServerConfig) -> Iterator[str]:
    for name in OF_OWN_LLM:
        value = getattr(config, name)
        if value != fields_of(ServerConfig)[name].default and value != FULL_ATTENTION:
            yield name
