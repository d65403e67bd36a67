"""How a server reports on itself: its log and its traces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from heddle.app.setting import fields_of, setting

OPERATION: Final = "operation"
LogFormatWord = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class OperationConfig:
    """What operators of a server choose.

    Raises:
        ConfigError: a value can't be used; the message names the field and the accepted values.
    """

    log_format: LogFormatWord = setting(
        "text",
        "lines of the log",
        details="json = one JSON object each, with time, level, logger, message, request_id and "
        "exception; the log goes to stderr",
        group=OPERATION,
    )
    otel: bool = setting(
        False,
        "export a trace of each request with OpenTelemetry",
        details="the variables OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and so on say where "
        "to; traces hold no texts, and no names of tenants",
        group=OPERATION,
    )

    def __post_init__(self) -> None:
        for name, field in fields_of(OperationConfig).items():
            field.check(getattr(self, name))

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Return the configuration of these settings, where texts stand for values as well."""
        known = fields_of(OperationConfig)
        read: dict[str, Any] = {name: known[name].read(value) for name, value in settings.items()}
        return cls(**read)
