"""The result of an attack: a headline of numbers, printed and written where that is asked for."""

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from heddle.cli.bench import machine_record, version_record


def publish(
    name: str,
    settings: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    headline: Mapping[str, float],
    into: Path | None,
) -> None:
    """Print the headline, and write the whole result as JSON; None = nowhere."""
    print("  ".join(f"{key} {value:g}" for key, value in headline.items()))
    if into is None:
        return
    result = {
        "name": name,
        "date": datetime.date.today().isoformat(),
        "machine": machine_record(),
        "versions": version_record(),
        "settings": dict(settings),
        "rows": [dict(row) for row in rows],
        "headline": dict(headline),
    }
    into.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
