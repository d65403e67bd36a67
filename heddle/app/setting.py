"""A field of a configuration: its help, its range, and its names outside Python."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeVar, get_type_hints

from heddle.app.value_kind import Member, Text, ValueKind, Word, kind_of, refusal
from heddle.core.errors import ConfigError
from heddle.corpus.place import CorpusPlace, is_database

T = TypeVar("T")
METADATA_KEY: Final = "setting"
VARIABLE_PREFIX: Final = "HEDDLE_"


@dataclass(frozen=True, slots=True)
class Setting:
    """What the type of a field doesn't say.

    Args:
        help: its meaning in one short sentence; its default is added where it is shown.
        details: what else a user may need.
        group: the heading it stands under.
        form: how a value is written, where its kind doesn't say.
        unit: of a number: bytes or s.
        low, high: the bounds of a number, which it may have.
        above, below: the bounds of a number, which it may not have.
        none: the word for None.
        default_words: what the default means, where the value itself doesn't say.
        flag: the flag's name where it isn't the field's, without dashes.
        is_common: whether `--help` shows the flag; `--help-all` shows every one.
        check: raises a ConfigError for a value that its kind and its bounds allow.
    """

    help: str
    details: str = ""
    group: str = ""
    form: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    none: str = "default"
    default_words: str = ""
    flag: str = ""
    is_common: bool = False
    check: Callable[[Any], object] | None = None

    @property
    def range_words(self) -> str:
        """The bounds, such as "from 1 to 64"; empty where there are none."""
        if self.low is not None and self.high is not None:
            return f"from {self.low:g} to {self.high:g}"
        if self.above is not None and self.below is not None:
            return f"above {self.above:g} and below {self.below:g}"
        if self.above is not None:
            return f"above {self.above:g}"
        return "" if self.low is None else f"of at least {self.low:g}"

    def allows(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


def setting(default: T, help: str, **more: Any) -> T:  # noqa: ANN401
    """Declare a field of a configuration with its default; the other arguments are Setting's."""
    declared: T = field(default=default, metadata={METADATA_KEY: Setting(help, **more)})
    return declared


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One field of a configuration, ready to be shown, read and checked."""

    name: str
    annotation: object
    default: object
    setting: Setting
    kind: ValueKind
    is_optional: bool

    @property
    def key(self) -> str:
        """Its key in heddle.toml."""
        return (self.setting.flag or self.name).replace("-", "_")

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return f"--{self.key.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"{VARIABLE_PREFIX}{self.key.upper()}"

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that a value can be; () where there are more than some."""
        return self.kind.choices if isinstance(self.kind, Word | Member) else ()

    @property
    def words(self) -> str:
        """What a value must be, to end the sentence "NAME must be ..."."""
        words = " ".join(filter(None, (self.kind.words, self.setting.range_words)))
        if isinstance(self.kind, Text):
            words = f"a text of the form {self.setting.form}"
        return f"{words}, or {self.setting.none!r} (None in Python)" if self.is_optional else words

    @property
    def default_text(self) -> str:
        """The default as a user would write it, or its meaning."""
        if self.setting.default_words:
            return self.setting.default_words
        return self.setting.none if self.default is None else value_text(self.default)

    def read(self, value: object, *, in_python: bool = True) -> object:
        """Return the value that a text, or another spelling, stands for, checked.

        Args:
            value: what was given.
            in_python: whether an error may speak of Python's values and types.

        Raises:
            ConfigError: it stands for none, or for one out of range.
        """
        if self.is_optional and (value is None or value == self.setting.none):
            return None
        if not self.kind.holds(value):
            try:
                value = self.kind.read(value)
            except ConfigError:
                raise
            except (ValueError, TypeError, OverflowError):
                raise refusal(self.name, self.words, value, in_python=in_python) from None
        self.check(value, in_python=in_python)
        return value

    def check(self, value: object, *, in_python: bool = True) -> None:
        """Check a value without changing it; see `read`.

        Raises:
            ConfigError: its type is wrong, or it is out of range.
        """
        if value is None and self.is_optional:
            return
        is_number = isinstance(value, int | float)
        if not self.kind.holds(value) or (is_number and not self.setting.allows(value)):  # type: ignore[arg-type]
            raise refusal(self.name, self.words, value, in_python=in_python)
        if self.setting.check is not None:
            self.setting.check(value)


@cache
def fields_of(config: type) -> Mapping[str, ConfigField]:
    """Return the fields of a configuration that is made of `setting`s, by name."""
    hints = get_type_hints(config)
    found = {}
    for one in fields(config):
        about: Setting = one.metadata[METADATA_KEY]
        kind, is_optional = kind_of(hints[one.name], about.unit)
        default = None if one.default is MISSING else one.default
        found[one.name] = ConfigField(one.name, hints[one.name], default, about, kind, is_optional)
    return found


def value_text(value: object) -> str:
    """Return a value as a user writes it."""
    match value:
        case bool():
            return "on" if value else "off"
        case str() if is_database(value):
            return CorpusPlace.of(value).name  # without its password
        case frozenset():
            return ",".join(sorted(value)) or "none"
        case _ if hasattr(value, "value"):
            return str(value.value)
        case _:
            return str(value)


def did_you_mean(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return what a misspelt name was probably meant to be, as the end of a sentence."""
    close = get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
