"""What a server can't do with a remote generator, refused by the setting's name."""

from collections.abc import Iterator
from typing import Final

from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import FULL_ATTENTION

# The settings of an LLM that runs in Heddle's own lanes.
OF_OWN_LLM: Final = (
    "kv_reuse",
    "speculate",
    "llm_lanes",
    "attention",
    "kv_cache_bytes",
    "kv_reuse_disk_bytes",
    "context_tokens_max",
    "max_num_batched_tokens",
    "background_step_s",
)
LEFT_OUT: Final = (
    "reuse of chunk KV, prompts computed ahead, the step budget of the LLM, and the exact count "
    "of a prompt's tokens before it is sent"
)


def check_remote_generator(config: ServerConfig) -> None:
    """Refuse settings that only an LLM in Heddle's own lanes can follow.

    Raises:
        ConfigError: one is set; the message names all of them.
    """
    given = [fields_of(ServerConfig)[name].flag for name in _changed(config)]
    if given:
        raise ConfigError(
            f"{', '.join(given)}: a remote model ({fields_of(ServerConfig)['generator'].flag} "
            "with an address) can't do that; leave it out, or name a model that runs in Heddle"
        )


def _changed(config: ServerConfig) -> Iterator[str]:
    for name in OF_OWN_LLM:
        value = getattr(config, name)
        default = fields_of(ServerConfig)[name].default
        if value != default and value != FULL_ATTENTION:
            yield name
