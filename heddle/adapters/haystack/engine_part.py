"""What Heddle's components for Haystack have in common: the engine that they call."""

from functools import cached_property
from typing import Any, Final, Self

from haystack import default_from_dict
from haystack.utils import Secret

from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.saved_engine import saved_engine

KEY_VARIABLE: Final = "HEDDLE_API_KEY"


def key_of_environment() -> Secret:
    """Return the key that HEDDLE_API_KEY holds when a component first calls, if it holds one."""
    return Secret.from_env_var(KEY_VARIABLE, strict=False)


class EnginePart:
    """A component that calls an engine.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        api_key: the key for a server by its address; None = that of HEDDLE_API_KEY.
        tenant: whose documents and caches are used; "" = those of no
            tenant, or of the key.
    """

    def __init__(self, engine: object, api_key: Secret | None, tenant: str) -> None:
        self.engine = engine
        self.api_key = key_of_environment() if api_key is None else api_key
        self.tenant = tenant

    @cached_property
    def called(self) -> Engine:
        """The engine.

        Raises:
            ConfigError: it is none, or no address.
        """
        key = self.api_key.resolve_value() or ""
        return engine_of(self.engine, api_key=key, tenant=self.tenant)

    def saved(self) -> dict[str, Any]:
        """Return what a file says of the engine.

        Raises:
            ConfigError: it is a server of this process.
        """
        return {
            "engine": saved_engine(self.engine),
            "api_key": self.api_key,
            "tenant": self.tenant,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the component that a file describes."""
        return default_from_dict(cls, data)
