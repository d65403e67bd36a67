"""What a generated text has to be: JSON of a schema, a match of a regex, or one of some texts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self

from heddle.core.errors import InputError
from heddle.core.texts.text_check import check_unicode

FIELD: Final = "constraint"  # of a request
SOURCE_CHARS_MAX: Final = 65_536
CHOICES_MAX: Final = 1_000
DEPTH_MAX: Final = 64


class ConstraintKind(Enum):
    """What a constraint's source is."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Constraint:
    """The form that a text must have. Two that are equal are one grammar.

    Make one with `json_schema`, `regex` or `choice`.

    Args:
        kind: what `source` is.
        source: the schema as JSON, its keys in their order; the regex; or the texts as JSON.
        before: what stands before it, as it is.
        after: what stands behind it, as it is.

    Example:
        from heddle import Constraint

        people = Constraint.choice(["Ann Reed", "Mary Dunn", "Tom Wells"])
        answer = server.ask("Who founded Oak Mill?", constraint=people)
        print(answer.text in people.value)  # True
    """

    kind: ConstraintKind
    source: str
    before: str = ""
    after: str = ""

    @classmethod
    def json_schema(cls, schema: object, *, before: str = "", after: str = "") -> Self:
        """Return the constraint that a text is JSON of a schema, between two fixed texts.

        The text has its properties in the schema's order, and no white space that JSON can do
        without, but one blank behind each colon and comma.

        Args:
            schema: a JSON schema: a mapping, or True for any JSON.
            before: stands before the JSON.
            after: stands behind it.

        Raises:
            InputError: it is no JSON, too long, or nested too deeply.
        """
        if not isinstance(schema, dict | bool):
            raise InputError(
                f"json_schema must be an object, got {type(schema).__name__}", param=FIELD
            )
        source = _json({} if schema is True else schema, "json_schema")
        return cls._of(ConstraintKind.JSON_SCHEMA, source, before, after)

    @classmethod
    def regex(cls, pattern: str) -> Self:
        """Return the constraint that a whole text matches a regex, without look-around.

        Raises:
            InputError: it is no text, or too long.
        """
        if not isinstance(pattern, str):
            raise InputError(f"regex must be a text, got {type(pattern).__name__}", param=FIELD)
        return cls._of(ConstraintKind.REGEX, pattern)

    @classmethod
    def choice(cls, texts: Sequence[str]) -> Self:
        """Return the constraint that a text is one of these.

        Raises:
            InputError: there is none, one is empty or no text, or they are too many or too long.
        """
        is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
        if not is_list or not all(isinstance(text, str) and text for text in texts):
            raise InputError("choice must be a list of texts, none of them empty", param=FIELD)
        if not 1 <= len(texts) <= CHOICES_MAX:
            raise InputError(
                f"choice must have 1 to {CHOICES_MAX:,} texts, got {len(texts):,}", param=FIELD
            )
        return cls._of(ConstraintKind.CHOICE, _json(list(texts), "choice"))

    @classmethod
    def _of(cls, kind: ConstraintKind, source: str, before: str = "", after: str = "") -> Self:
        if len(source) > SOURCE_CHARS_MAX:
            raise InputError(
                f"{kind.value} has {len(source):,} characters, more than {SOURCE_CHARS_MAX:,}",
                param=FIELD,
            )
        for text in (source, before, after):
            check_unicode(text, kind.value)
        return cls(kind, source, before, after)

    @property
    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """The schema, the regex, or the list of texts."""
        return self.source if self.kind is ConstraintKind.REGEX else json.loads(self.source)


def _json(value: object, field: str) -> str:
    if _depth(value) > DEPTH_MAX:
        raise InputError(f"{field} is nested more than {DEPTH_MAX} levels deep", param=FIELD)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{field} is no JSON: {error}", param=FIELD) from None


def _depth(value: object) -> int:
    """Return how deeply a value is nested, or one more than is allowed."""
    level, depth = [value], 0
    while level and depth <= DEPTH_MAX:
        depth += 1
        inner = [
            list(one.values() if isinstance(one, dict) else one)
            for one in level
            if isinstance(one, dict | list | tuple)
        ]
        level = [item for items in inner for item in items]
    return depth
