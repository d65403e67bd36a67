"""kv-deviation: the KV it compares is the engine's, and what must not deviate doesn't."""

from pathlib import Path

import pytest

from benchmarks import kv_deviation
from heddle.core.errors import InputError


@pytest.fixture(scope="module")
def found(tiny_directory: Path, notes: Path):
    return kv_deviation.run(True, 0, model=str(tiny_directory), dataset=str(notes), questions=2)


def test_deviation_begins_in_the_second_layer(found):
    layers = [row for row in found["rows"] if "layer" in row]
    assert len(layers) == 3
    assert layers[0]["raw"] < 1e-4  # rounding by the store, and nothing else
    assert all(row["raw"] > 0.01 and row["primed"] > 0.01 for row in layers[1:])
    head, tail = found["headline"], layers[1]
    assert head["layer2_drop"] == pytest.approx(1 - tail["primed"] / tail["raw"])
    assert 0 < head["layer2_left_after_15"] < 0.85


def test_where_the_selected_tokens_lie(found):
    by_place = [row for row in found["rows"] if "fifth_by_place" in row]
    assert [row["fifth_by_place"] for row in by_place] == [1, 2, 3, 4, 5]
    # EPIC takes the first 15 % of each chunk: three quarters of the first fifth, nothing else.
    assert by_place[0]["epic"] > 0.6
    assert all(row["epic"] == 0 for row in by_place[1:])
    for policy in ("epic", "fusionrag"):
        mean = sum(row[policy] for row in by_place) / 5
        assert mean == pytest.approx(0.15, abs=0.03)
    [together] = (row["shown_together"] for row in found["rows"] if "shown_together" in row)
    assert 0 < together[2] <= together[5] <= together[10] <= 1


def test_too_few_passages(tiny_directory: Path, notes: Path):
    with pytest.raises(InputError, match="more than 5 passages"):
        kv_deviation.run(True, 0, model=str(tiny_directory), dataset=str(notes), questions=0)
