"""What Heddle's components for LlamaIndex have in common: the engine that they call."""

from functools import cached_property
from typing import Any

from llama_index.core.bridge.pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_serializer,
)

from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.saved_engine import saved_engine


class EngineFields(BaseModel):
    """The fields of a component that calls an engine.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        api_key: the key for a server by its address; it is never saved.
        tenant: whose documents and caches are used; "" = those of no
            tenant, or of the key.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, ignored_types=(cached_property,), extra="forbid"
    )

    engine: Any = Field(description="the address of a running server, or a heddle.Server")
    api_key: SecretStr = Field(default=SecretStr(""), exclude=True, description="the server's key")
    tenant: str = Field(default="", description="whose documents and caches are used")

    @cached_property
    def called(self) -> Engine:
        """The engine.

        Raises:
            ConfigError: `engine` is none, or no address.
        """
        key = self.api_key.get_secret_value()
        return engine_of(self.engine, api_key=key, tenant=self.tenant)

    @field_serializer("engine")
    def _saved(self, engine: Any) -> str:
        return saved_engine(engine)
