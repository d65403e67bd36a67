"""What a model is asked to write in a given form: an instruction and a JSON schema, or tools."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jsonschema

from heddle.app.chat.tool_calls import constraint_of, parse
from heddle.app.chat.tools import ToolChoice
from heddle.core.prompts.constraint import Constraint

Schema = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One text to write: JSON of a schema, or a call of one of some tools."""

    name: str
    asked: str
    schema: Schema
    tools: tuple[Schema, ...] = ()
    tool_choice: object = None

    @property
    def constraint(self) -> Constraint | None:
        """What a text must be to suit it."""
        if not self.tools:
            return Constraint.json_schema(self.schema)
        return constraint_of(ToolChoice.of(list(self.tools), self.tool_choice))

    def is_met_by(self, text: str) -> bool:
        """Whether a text suits it, by jsonschema."""
        value, schema = text, self.schema
        if self.tools:
            calls = parse(text, ToolChoice.of(list(self.tools), self.tool_choice))
            if len(calls) != 1:
                return False
            given = {tool["function"]["name"]: tool["function"] for tool in self.tools}
            schema, value = given[calls[0].name]["parameters"], calls[0].arguments
        checker = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        try:
            return bool(checker.is_valid(json.loads(value)))
        except ValueError:
            return False


def shape(**properties: Schema) -> Schema:
    """Return an object's schema: these properties, all of them, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text(chars_max: int = 40, **more: object) -> Schema:
    """Return a short text's schema."""
    return {"type": "string", "maxLength": chars_max, **more}


def whole(low: int, high: int) -> Schema:
    """Return an integer's schema."""
    return {"type": "integer", "minimum": low, "maximum": high}


def number(low: float, high: float) -> Schema:
    """Return a number's schema."""
    return {"type": "number", "minimum": low, "maximum": high}


def some(items: Schema, low: int, high: int) -> Schema:
    """Return an array's schema."""
    return {"type": "array", "items": items, "minItems": low, "maxItems": high}


def one_of(*values: object) -> Schema:
    """Return the schema of one of these values."""
    return {"enum": list(values)}


def matching(pattern: str) -> Schema:
    """Return the schema of a text that matches a regex as a whole."""
    return {"type": "string", "pattern": f"^{pattern}$"}


def ref(name: str) -> Schema:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def function(name: str, description: str, parameters: Schema) -> Schema:
    """Return a tool in OpenAI's form."""
    inner = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": inner}


FLAG: Final[Schema] = {"type": "boolean"}
PRICE: Final = shape(amount=number(0, 9999), currency=one_of("EUR", "USD", "GBP"))
ADDRESS: Final = shape(street=text(), city=text(), code=matching("[0-9]{5}"))
PERSON: Final = shape(name=text(), age=whole(0, 120))

NESTED: Final[Mapping[str, tuple[str, Schema]]] = {
    "person": ("a person with an address", shape(name=text(), address=ADDRESS)),
    "order": (
        "an order of two articles",
        shape(id=whole(1, 99999), items=some(shape(article=text(), count=whole(1, 9)), 1, 2)),
    ),
    "company": (
        "a company and its head",
        shape(name=text(), head=PERSON, seat=shape(city=text(), country=text())),
    ),
    "weather": (
        "the weather in Oslo",
        shape(city=text(), now=shape(sky=one_of("clear", "rain"), celsius=number(-40, 50))),
    ),
    "book": (
        "a book and its publisher",
        shape(title=text(60), author=PERSON, publisher=shape(name=text(), year=whole(1400, 2030))),
    ),
    "ship": (
        "a ship's voyage",
        shape(ship=text(), voyage=shape(start=shape(port=text()), end=shape(port=text()))),
    ),
    "recipe": (
        "a recipe for bread",
        shape(name=text(), steps=some(shape(do=text(60), minutes=whole(1, 240)), 1, 3)),
    ),
    "deep": (
        "boxes within boxes",
        shape(box=shape(box=shape(box=shape(box=shape(holds=text(20)))))),
    ),
}
ENUMS: Final[Mapping[str, tuple[str, Schema]]] = {
    "mood": ("the mood of: what a lovely day", shape(mood=one_of("good", "bad", "neutral"))),
    "ticket": (
        "the ticket: the printer is on fire",
        shape(urgency=one_of("low", "high", "now"), team=one_of("it", "fire brigade")),
    ),
    "mixed": ("a setting", shape(value=one_of(1, "two", None, True), level=one_of(1, 2, 3))),
    "lone": ("a colour", one_of("red", "green", "blue")),
    "flags": ("settings of a lamp", shape(on=FLAG, dims=FLAG, colour=one_of("warm", "cold"))),
    "weekdays": (
        "working days",
        shape(days=some(one_of("mon", "tue", "wed", "thu", "fri"), 1, 5), half=FLAG),
    ),
    "kinds": (
        "a tagged value",
        {
            "anyOf": [
                shape(kind={"const": "word"}, word=text(20)),
                shape(kind={"const": "count"}, count=whole(0, 100)),
            ]
        },
    ),
    "nullable": (
        "a person without a middle name",
        shape(first=text(20), middle={"type": ["string", "null"], "maxLength": 20}),
    ),
}
PATTERNS: Final[Mapping[str, tuple[str, Schema]]] = {
    "date": ("the day of the moon landing", shape(day={"type": "string", "format": "date"})),
    "moment": ("a moment", shape(at={"type": "string", "format": "date-time"})),
    "mail": (
        "a mail address",
        shape(mail=matching(r"[a-z]{2,12}\.[a-z]{2,12}@[a-z]{3,12}\.(com|org)")),
    ),
    "phone": ("a phone number", shape(phone=matching(r"\+[0-9]{2} [0-9]{3} [0-9]{4,6}"))),
    "part": ("a part number", shape(part=matching("[A-Z]{3}-[0-9]{4}(-[a-z])?"))),
    "colour": ("the colour red", shape(rgb=matching("#[0-9a-f]{6}"))),
    "version": ("a software version", shape(version=matching(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]"))),
    "identity": ("an identity", shape(id={"type": "string", "format": "uuid"}, of=text(20))),
    "plate": ("a car", shape(plate=matching("[A-Z]{1,3} [A-Z]{2} [0-9]{1,4}"), maker=text(20))),
}
ARRAYS: Final[Mapping[str, tuple[str, Schema]]] = {
    "primes": ("three prime numbers", some(whole(2, 97), 3, 3)),
    "grid": ("a grid of two by two numbers", some(some(whole(0, 9), 2, 2), 2, 2)),
    "tags": ("tags of a text about sailing", shape(tags=some(text(15), 1, 4))),
    "pairs": (
        "capitals of countries",
        some(shape(country=text(20), capital=text(20)), 2, 3),
    ),
    "tuple": (
        "a name and a number",
        {"type": "array", "prefixItems": [text(20), whole(0, 9)], "items": False, "minItems": 2},
    ),
    "scores": ("marks of a pupil", shape(pupil=text(20), marks=some(number(1, 6), 1, 5))),
    "maybe": ("nothing, or one thing", shape(things=some(text(20), 0, 1))),
    "points": ("corners of a triangle", some(shape(x=whole(-9, 9), y=whole(-9, 9)), 3, 3)),
}
_TREE: Final = {
    **shape(value=whole(0, 9), children=some(ref("leaf"), 0, 2)),
    "$defs": {"leaf": shape(value=whole(0, 9), label=text(10))},
}
REFERENCES: Final[Mapping[str, tuple[str, Schema]]] = {
    "price": (
        "a chair and a table with prices",
        {**shape(chair=ref("price"), table=ref("price")), "$defs": {"price": PRICE}},
    ),
    "tree": ("a small tree", _TREE),
    "chain": (
        "a chain of at most a few links",
        {
            "$ref": "#/$defs/link",
            "$defs": {
                "link": shape(n=whole(0, 9), next={"anyOf": [{"type": "null"}, ref("link")]})
            },
        },
    ),
    "match": (
        "a football match",
        {
            **shape(home=ref("team"), guest=ref("team"), goals=some(whole(0, 12), 2, 2)),
            "$defs": {"team": shape(name=text(20), coach=ref("person")), "person": PERSON},
        },
    ),
    "letter": (
        "a letter",
        {
            **shape(sender=ref("address"), receiver=ref("address"), kind=ref("kind")),
            "$defs": {"address": ADDRESS, "kind": one_of("letter", "parcel")},
        },
    ),
    "pointer": (
        "two lengths in metres",
        shape(first=number(0, 99), second={"$ref": "#/properties/first"}),
    ),
}
_WEATHER: Final = function(
    "get_weather",
    "Reports the weather of a city.",
    shape(city=text(30), unit=one_of("celsius", "fahrenheit")),
)
_SEARCH: Final = function(
    "search",
    "Searches documents.",
    shape(query=text(60), topk=whole(1, 20), tags=some(text(12), 0, 2)),
)
_MAIL: Final = function(
    "send_mail",
    "Sends a mail.",
    {
        **shape(to=ref("person"), subject=text(40)),
        "$defs": {"person": shape(name=text(20), mail=matching("[a-z]{2,9}@[a-z]{2,9}[.]org"))},
    },
)
_CLOCK: Final = function("now", "Reports the time.", {"type": "object", "properties": {}})
_TOOLS: Final = (_WEATHER, _SEARCH, _MAIL, _CLOCK)
CALLS: Final[Mapping[str, tuple[str, object]]] = {
    "weather": ("How warm is it in Bergen?", "required"),
    "search": ("What do our documents say about the harbour?", "required"),
    "any": ("Please tell Ada that I am late.", "required"),
    "named_weather": ("Is it raining in Lima?", "get_weather"),
    "named_search": ("Find papers on caching.", "search"),
    "named_mail": ("Write to bo@sea.org that dinner is ready.", "send_mail"),
    "named_clock": ("What time is it?", "now"),
}


def tasks() -> list[Task]:
    """Return all of them, the kinds in turns, so that any first part has some of each."""
    kinds = {
        "nested": NESTED,
        "enum": ENUMS,
        "pattern": PATTERNS,
        "array": ARRAYS,
        "ref": REFERENCES,
    }
    queues = [
        [Task(f"{kind}/{name}", f"Write JSON of {asked}.", schema) for name, (asked, schema) in of]
        for kind, of in ((kind, named.items()) for kind, named in kinds.items())
    ]
    queues.append(
        [
            Task(f"tool/{name}", asked, {}, _TOOLS, _choice(choice))
            for name, (asked, choice) in CALLS.items()
        ]
    )
    longest = max(map(len, queues))
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _choice(word: object) -> object:
    return word if word == "required" else {"type": "function", "function": {"name": word}}
