"""docs/reference/receipt.md: what a receipt says, field by field."""

import dataclasses
from collections.abc import Iterator
from typing import Final, get_type_hints

from heddle.core.counts import Counts, Unit, counters
from heddle.core.degradation import Degradation, DegradationKind
from heddle.core.results import FusedKv, RecallEstimate
from heddle.runtime.receipt import Receipt, Span, Speculation, Splice
from tools.reference.docstrings import parse
from tools.reference.signatures import type_text
from tools.reference.tables import table

HEAD = """\
# Receipt

Every answer carries a receipt: `answer.receipt` in Python, `receipt` in the JSON of `POST /v1/ask`,
and `heddle ask --receipt` as text. Times are in seconds. Each counter has a metric: `/metrics` adds
it up over all answered requests, and `GET /v1/live` has the same sums by field. The trace of a
request has those that are not 0, as `heddle.` and the field's name.
"""
UNITS: Final = {Unit.PIECES: "", Unit.BYTES: "bytes", Unit.SECONDS: "seconds"}
INSIDE: Final = {
    "spans": Span,
    "kv_reuse": FusedKv,
    "splices": Splice,
    "speculations": Speculation,
    "recall": RecallEstimate,
    "degradations": Degradation,
}


def receipt_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield from fields(Receipt)
    yield "## Counters"
    yield ""
    yield from counter_table(Receipt)
    for name, kind in INSIDE.items():
        yield f"## {name}"
        yield ""
        yield " ".join(parse(kind.__doc__).text).strip()
        yield ""
        yield from fields(kind)
    yield f"The kinds are {', '.join(f'`{kind.value}`' for kind in DegradationKind)}."


def fields(kind: type) -> Iterator[str]:
    """Yield the table of a dataclass's fields, without counters; its docstring must explain all."""
    counted = {one.name for one in counters(kind)} if issubclass(kind, Counts) else set()
    meanings = parse(kind.__doc__).entries("Args")
    names = [one.name for one in dataclasses.fields(kind) if one.name not in counted]
    assert list(meanings) == names, f"{kind.__name__} explains {list(meanings)}, and has {names}"
    hints = get_type_hints(kind)
    rows = ((f"`{name}`", f"`{type_text(hints[name])}`", meanings[name]) for name in names)
    yield from table(("field", "type", "meaning"), rows)


def counter_table(kind: type[Counts]) -> Iterator[str]:
    """Yield the table of a class's counters."""
    rows = (
        (f"`{one.name}`", UNITS[one.unit], f"`{one.metric}_total`", one.sentence)
        for one in counters(kind)
    )
    yield from table(("field", "unit", "metric", "meaning"), rows)
