"""A model's chat template, rendered once: what stands before and after the user's content."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

import jinja2
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from heddle.core.errors import ConfigError

MARKER = "heddle0content0marker"  # letters and digits: no template trims or escapes them
SYSTEM_MARKER = "heddle0system0marker"
TEMPLATES_KEPT = 16  # compiled; a server has one


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A template split at the user's content: rendered text = head + content + tail.

    `source` is the template itself; its literal text holds the model's control tokens. With a
    system message the text is system_head + system + system_end + content + tail; both are None
    where the template has no place for one. `tokens` are the model's special tokens by their names
    in the template, which reads a content as a list of parts if it `wraps_content`.
    """

    head: str
    tail: str
    source: str
    system_head: str | None = None
    system_end: str | None = None
    tokens: Mapping[str, str] = field(default_factory=dict)
    wraps_content: bool = False

    @classmethod
    def from_directory(cls, directory: Path) -> "ChatTemplate | None":
        """Read and render a model directory's template; None for a base model without one.

        The content is put in as it is: a template that trims messages is not followed in that.
        `strftime_now` gives the moment of this call, so a template's date is that of start-up.

        Raises:
            ConfigError: the template can't be rendered, or not with one user message.
        """
        settings = read_json(directory / "tokenizer_config.json")
        source = _template_source(directory, settings)
        if source is None:
            return None
        names = {**read_json(directory / "special_tokens_map.json"), **settings}
        tokens = {k: _content(v) for k, v in names.items() if k.endswith("_token") and v}
        for content in (MARKER, [{"type": "text", "text": MARKER}]):
            try:
                rendered = _render(source, [_message("user", content)], tokens)
            except Exception as error:  # a template is a program of the model's author
                if isinstance(content, list):
                    break  # it takes texts alone
                raise ConfigError(
                    f"chat template of {directory} can't be rendered: {error}"
                ) from error
            if rendered.count(MARKER) == 1:
                head, tail = rendered.split(MARKER)
                system_head, system_end = _around_system(source, content, tokens, tail)
                wraps = isinstance(content, list)
                return cls(head, tail, source, system_head, system_end, tokens, wraps)
        raise ConfigError(
            f"chat template of {directory} doesn't show a user message exactly once; "
            "correct chat_template.jinja, or remove it to use the model without a template"
        )

    def shown(self, content: str) -> object:
        """Return a content as the template reads it."""
        return [{"type": "text", "text": content}] if self.wraps_content else content

    def render(self, messages: Sequence[object]) -> str:
        """Return the text of a conversation, ready for the model's next turn.

        Raises:
            Exception: any that the template raises.
        """
        return _render(self.source, messages, self.tokens)


def read_json(path: Path) -> dict[str, object]:
    """Return a JSON object, {} where there is no such file.

    Raises:
        ConfigError: the file holds no JSON object.
    """
    if not path.is_file():
        return {}
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path} should hold a JSON object, got {type(loaded).__name__}")
    return loaded


def _template_source(directory: Path, settings: Mapping[str, object]) -> str | None:
    """The file wins over tokenizer_config.json, and `default` over other named templates."""
    file = directory / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        template = {t["name"]: t["template"] for t in template}.get("default")
    return template if isinstance(template, str) else None


def _content(token: object) -> str:
    """A special token is written as text, or as an object with its `content`."""
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _message(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def _around_system(
    source: str, content: object, tokens: Mapping[str, str], tail: str
) -> tuple[str | None, str | None]:
    """Return what stands before and after a system text; None where none can be shown.

    Some templates refuse a system message, leave it out, or put it elsewhere.
    """
    system = [{"type": "text", "text": SYSTEM_MARKER}] if isinstance(content, list) else ""
    messages = [_message("system", system or SYSTEM_MARKER), _message("user", content)]
    try:
        rendered = _render(source, messages, tokens)
    except Exception:  # any that the template raises
        return None, None
    before, found, after = rendered.partition(SYSTEM_MARKER)
    end, shown, rest = after.partition(MARKER)
    is_one = bool(found and shown) and rest == tail and SYSTEM_MARKER not in after
    return (before, end) if is_one else (None, None)


def _render(source: str, messages: Sequence[object], tokens: Mapping[str, str]) -> str:
    """Render as transformers does: the same variables."""
    return _compiled(source).render(
        messages=messages, tools=None, documents=None, add_generation_prompt=True, **tokens
    )


@lru_cache(maxsize=TEMPLATES_KEPT)
def _compiled(source: str) -> jinja2.Template:
    """Compile as transformers does: the same environment and globals."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(source)


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's words for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it as a plain set)

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: object, **options: object) -> str:
    """jinja2's own filter escapes HTML, which a prompt doesn't want."""
    return json.dumps(value, **{"ensure_ascii": False, **options})  # type: ignore[arg-type]


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
