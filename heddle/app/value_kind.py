"""The kinds of value that a setting can have: what each accepts, as text and in Python."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Final, Literal, Protocol, Union, get_args, get_origin

from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import KV_REUSE_FORM, KvReuse, kv_reuse_of

BYTES_IN: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
WORDS_ON: Final = ("on", "true", "yes", "1")
WORDS_OFF: Final = ("off", "false", "no", "0")
_IN_PYTHON: Final = re.compile(r" \([^()]+ in Python\)")
_SIZE: Final = re.compile(r"(\d+)\s*([KMG]?)(?:i?B)?", re.IGNORECASE)


class ValueKind(Protocol):
    """One kind of value."""

    @property
    def words(self) -> str:
        """What a value must be, to end the sentence "NAME must be ..."."""
        ...

    def holds(self, value: object) -> bool:
        """Whether a value has the kind's own Python type."""
        ...

    def read(self, value: object) -> object:
        """Return the value that a text, or another spelling, stands for.

        Raises:
            ValueError: it stands for none; a ConfigError says why by itself.
        """
        ...


@dataclass(frozen=True, slots=True)
class Switch:
    """True or False; as text: on or off."""

    words: str = "on or off (True or False in Python)"

    def holds(self, value: object) -> bool:
        """Whether it is a bool."""
        return isinstance(value, bool)

    def read(self, value: object) -> bool:
        """Return what on, off, true, false, yes, no, 1 or 0 stands for."""
        text = str(value).lower() if isinstance(value, str) else ""
        if text in WORDS_ON or text in WORDS_OFF:
            return text in WORDS_ON
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer."""

    words: str = "an integer"

    def holds(self, value: object) -> bool:
        """Whether it is an int, and no bool."""
        return isinstance(value, int) and not isinstance(value, bool)

    def read(self, value: object) -> int:
        """Return the number that a text or another integer type, such as NumPy's, stands for."""
        if isinstance(value, str) or (isinstance(value, Integral) and not isinstance(value, bool)):
            return int(value)
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes."""

    words: str = "a size such as 512M or 2G, or bytes"

    def holds(self, value: object) -> bool:
        """Whether it is an int, and no bool."""
        return Whole().holds(value)

    def read(self, value: object) -> int:
        """Return the bytes of a text such as 512M, 2GiB or 1000."""
        match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is not None:
            return int(match[1]) * BYTES_IN[match[2].upper()]
        return Whole().read(None if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True)
class Number:
    """A finite real number."""

    words: str = "a number"

    def holds(self, value: object) -> bool:
        """Whether it is a finite float or int, and no bool."""
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        return is_number and math.isfinite(value)  # type: ignore[arg-type]

    def read(self, value: object) -> float:
        """Return the number that a text or another real type, such as NumPy's, stands for."""
        if isinstance(value, str) or (isinstance(value, Real) and not isinstance(value, bool)):
            return float(value)
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Word:
    """One of some texts."""

    choices: tuple[str, ...]

    @property
    def words(self) -> str:
        """The texts."""
        return f"one of {', '.join(self.choices)}"

    def holds(self, value: object) -> bool:
        """Whether it is one of them."""
        return isinstance(value, str) and value in self.choices

    def read(self, value: object) -> str:
        """Refuse it: a word has one spelling."""
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enum; as text: its value, in any case."""

    enum: type[Enum]

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of the members."""
        return tuple(str(member.value) for member in self.enum)

    @property
    def words(self) -> str:
        """The values of the members."""
        return f"one of {', '.join(self.choices)}"

    def holds(self, value: object) -> bool:
        """Whether it is a member."""
        return isinstance(value, self.enum)

    def read(self, value: object) -> Enum:
        """Return the member with this value."""
        text = value.lower() if isinstance(value, str) else None
        for member in self.enum:
            if member.value == text:
                return member
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    words: str = "a text that is not empty"

    def holds(self, value: object) -> bool:
        """Whether it is such a text."""
        return isinstance(value, str) and bool(value.strip())

    def read(self, value: object) -> str:
        """Refuse it: a text has one spelling."""
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Place:
    """A path, or a name as text; or a value of another type that stands for a place."""

    words: str = "a path or a name that is not empty"
    others: tuple[type, ...] = ()

    def holds(self, value: object) -> bool:
        """Whether it is a path or a text that is not empty."""
        return isinstance(value, (Path, *self.others)) or Text().holds(value)

    def read(self, value: object) -> str:
        """Refuse it: a path has one spelling."""
        raise ValueError(value)


@dataclass(frozen=True, slots=True)
class Reuse:
    """A KvReuse; as text: a policy, a ratio and options."""

    words: str = f"a KvReuse or a text, {KV_REUSE_FORM}"

    def holds(self, value: object) -> bool:
        """Whether it is a KvReuse."""
        return isinstance(value, KvReuse)

    def read(self, value: object) -> KvReuse:
        """Return what a text such as "fusionrag,0.15" says."""
        return kv_reuse_of(value)


@dataclass(frozen=True, slots=True)
class Names:
    """A frozen set of names; as text: with commas between them."""

    words: str = "names with commas between them (a frozenset in Python)"

    def holds(self, value: object) -> bool:
        """Whether it is a frozen set of texts that are not empty."""
        return isinstance(value, frozenset) and all(map(Text().holds, value))

    def read(self, value: object) -> frozenset[str]:
        """Return the names of a text, a list, a tuple or a set."""
        if isinstance(value, str):
            return frozenset(part for one in value.split(",") if (part := one.strip()))
        if isinstance(value, Iterable) and not isinstance(value, bytes):
            return frozenset(value)
        raise ValueError(value)


def kind_of(annotation: object, unit: str) -> tuple[ValueKind, bool]:
    """Return the kind of a field by its type and unit, and whether None is a value of it, too."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    types = [part for part in parts if part is not NoneType]
    return _kind(types, unit), NoneType in parts


def _kind(types: list[object], unit: str) -> ValueKind:
    first = types[0]
    if Path in types:
        others = (one for one in types if isinstance(one, type) and one not in (str, Path))
        return Place(others=tuple(others))
    if get_origin(first) is Literal:
        return Word(get_args(first))
    if get_origin(first) is frozenset:
        return Names()
    if isinstance(first, type) and issubclass(first, Enum):
        return Member(first)
    if first is int:
        return Size() if unit == "bytes" else Whole()
    simple: dict[object, ValueKind] = {bool: Switch(), float: Number(), str: Text()}
    return Reuse() if first is KvReuse else simple[first]


def refusal(name: str, words: str, value: object, *, in_python: bool) -> ConfigError:
    """Return the error that says what a value must be; see `ConfigField.read`."""
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:60] + "..."
    if in_python:
        return ConfigError(f"{name} must be {words}, got {shown} ({type(value).__name__})")
    return ConfigError(f"{name} must be {_IN_PYTHON.sub('', words)}, got {shown}")
