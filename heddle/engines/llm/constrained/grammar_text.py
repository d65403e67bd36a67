"""A constraint as llguidance takes it, and what is wrong with one that it doesn't take."""

import json
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from heddle.core.prompts.constraint import Constraint, ConstraintKind
from heddle.engines.llm.constrained.schema_places import find_endless, find_place

if TYPE_CHECKING:
    from llguidance import LLParserLimits

# White space would let a small model write blanks without end. Every option is set, so a schema
# can't set one: it may come from a stranger.
OPTIONS: Final[dict[str, Any]] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "coerce_one_of": False,
    "lenient": False,
}
OPTIONS_KEY: Final = "x-guidance"
UNFORCED: Final = '%llguidance {"no_forcing": true}\n'
# Bounds of time and memory: a lexer state takes 1 to 2 kB, and 50,000 units of fuel a millisecond.
LEXER_STATES_MAX: Final = 20_000
GRAMMAR_SYMBOLS_MAX: Final = 50_000
COMPILING_FUEL: Final = 1_000_000


@cache
def limits() -> "LLParserLimits":
    """Return the bounds of each grammar."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        initial_lexer_fuel=COMPILING_FUEL,
        max_lexer_states=LEXER_STATES_MAX,
        max_grammar_size=GRAMMAR_SYMBOLS_MAX,
        verbose_errors=False,
    )


def grammar_text(constraint: Constraint, specials: Collection[str] = ()) -> str:
    """Return a constraint as llguidance's grammar.

    llguidance writes a text that is forced with the tokens that the tokenizer reads it as, and so
    a special token's text with that token, which ends the text or is left out of it. A constraint
    that holds such a text therefore forces none: each token is drawn, and none of them is special.

    Args:
        constraint: what a text has to be.
        specials: texts of the model's special tokens.
    """
    if not _holds_any(constraint, specials):
        return _grammar(constraint)
    if constraint.kind is ConstraintKind.REGEX:
        [grammar] = json.loads(_grammar(constraint))["grammars"]
        return f"{UNFORCED}{grammar['lark_grammar']}"
    return f"{UNFORCED}{_lark(constraint)}"


def _holds_any(constraint: Constraint, texts: Collection[str]) -> bool:
    """Whether a constraint holds one of these texts, with or without escapes of a regex."""
    parts = (constraint.before, constraint.source, constraint.after)
    plain = [part.replace("\\", "") for part in parts]
    return any(text.replace("\\", "") in part for text in texts for part in plain)


def _grammar(constraint: Constraint) -> str:
    from llguidance import LLMatcher

    match constraint.kind:
        case ConstraintKind.REGEX:
            return str(LLMatcher.grammar_from_regex(constraint.value))
        case ConstraintKind.JSON_SCHEMA if not (constraint.before or constraint.after):
            return _schema_grammar(constraint.value)
    return str(LLMatcher.grammar_from_lark(_lark(constraint)))


def _lark(constraint: Constraint) -> str:
    """Return a schema or a choice in Lark's form."""
    if constraint.kind is ConstraintKind.CHOICE:
        inside = " | ".join(_literal(text) for text in constraint.value)
    else:
        inside = f"%json {json.dumps({**constraint.value, OPTIONS_KEY: OPTIONS})}"
    around = (constraint.before, "inside", constraint.after)
    parts = (part if part == "inside" else _literal(part) for part in around if part)
    return f"start: {' '.join(parts)}\ninside: {inside}"


def problem_of(constraint: Constraint) -> str:
    """Return why no text can be constrained so, with the place in a schema; empty if one can.

    Takes milliseconds, of a schema that can't be used perhaps a second.
    """
    if constraint.kind is not ConstraintKind.JSON_SCHEMA:
        problem = _refusal(grammar_text(constraint))
        return f"{constraint.kind.value}: {problem}" if problem else ""
    schema = constraint.value
    if schema is False:
        return "json_schema: false allows no text"
    if OPTIONS_KEY in schema:
        return f"json_schema at /{OPTIONS_KEY}: options of the grammar can't be set; leave it out"
    problem = _schema_refusal(schema)
    if problem:
        place, problem = find_place(schema, problem, _schema_refusal)
        return f"json_schema at {place or '/'}: {problem}"
    endless = find_endless(schema)
    if endless is not None:
        return (
            f"json_schema at {endless or '/'}: no value of it can end, because it has to hold "
            "itself: make the property optional, or allow another type"
        )
    return ""


def _schema_refusal(schema: object) -> str:
    if not isinstance(schema, dict):
        return "" if schema is not False else "false allows no value"
    return _refusal(_schema_grammar(schema))


def _schema_grammar(schema: dict[str, Any]) -> str:
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_json_schema(schema, overrides=OPTIONS))


def _refusal(grammar: str) -> str:
    """Return why llguidance doesn't take a grammar, in one line; empty if it does.

    A regex's message shows the pattern over several lines, and its reason in a line of its own.
    """
    from llguidance import LLMatcher

    is_refused, messages = LLMatcher.validate_grammar_with_warnings(grammar, limits=limits())
    if not is_refused:
        return ""
    lines = [line.strip() for line in messages[0].splitlines()]
    reasons = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return reasons[0] if reasons else " ".join(lines)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
