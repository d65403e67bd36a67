"""docs/reference/config.md: every setting, with its names, values and default."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from heddle.app.server_config import ServerConfig
from heddle.app.setting import ConfigField, fields_of
from heddle.server.http_config import HttpConfig
from heddle.server.operation.operation_config import OperationConfig
from tools.reference.tables import table

HEAD = """\
# Settings

A setting has one name, written in four ways: the flag of a command (`--kv-cache-bytes`), the
environment variable (`HEDDLE_KV_CACHE_BYTES`), the key in `heddle.toml` (`kv_cache_bytes`), and the
keyword of `Server` and `ServerConfig` in Python (`kv_cache_bytes`). The one exception is the model:
its Python name is `generator`, as in HedraRAG's Listing 1.

A flag counts before the environment, that before the file, and that before the default. The file is
`heddle.toml` in the working directory, or the one that `--config FILE` names. Paths in it are
relative to the working directory. `heddle doctor` shows which settings were given, and where;
so does `--verbose` with every command. An unknown name or an impossible value is refused before
anything starts. In Python only keywords count: neither the environment nor a file is read.

```toml
# heddle.toml
index = "corpus"
model = "reader"
recall = 0.95
kv_cache_bytes = "2G"
embedding_lanes = "cpu:0-3,cpu:4-7"
```

On the command line a switch is written `--speculate` or `--no-speculate`.
"""


def config_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield "## A server's settings"
    yield ""
    yield "Flags of the commands that start a server, and keywords of `Server`."
    yield ""
    yield from _groups(fields_of(ServerConfig).values())
    yield "## Settings of the HTTP front"
    yield ""
    yield "Flags of `heddle serve`; Python has none of them."
    yield ""
    yield from _groups(fields_of(HttpConfig).values())
    yield "## Settings of operation"
    yield ""
    yield "Flags of `heddle serve`, and `--log-format` of `heddle mcp`; Python has none of them."
    yield ""
    yield from _groups(fields_of(OperationConfig).values())


def _groups(fields: Iterable[ConfigField]) -> Iterator[str]:
    groups = sorted(fields, key=lambda one: one.setting.group)
    order = list(dict.fromkeys(one.setting.group for one in fields))
    groups = sorted(groups, key=lambda one: order.index(one.setting.group))
    for group, members in groupby(groups, lambda one: one.setting.group):
        yield f"### {group[0].upper()}{group[1:]}"
        yield ""
        heads = ("setting", "flag and variable", "values", "default", "meaning")
        yield from table(heads, map(_row, members))


def _row(field: ConfigField) -> tuple[str, ...]:
    about = field.setting
    meaning = f"{about.help}; {about.details}" if about.details else about.help
    names = f"`{field.flag}`<br>`{field.variable}`"
    return f"`{field.name}`", names, field.words, field.default_text, meaning
