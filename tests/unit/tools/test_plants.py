"""Every plant can still be applied, and a headline counts what was found by whom.

Whether the simulator finds them takes minutes and is tried by `make plants`.
"""

from collections import Counter

import pytest

from tools.mutants import ROOT
from tools.plants import SEED, Finding, headline, plants


def test_every_name_is_given_once():
    names = [plant.name for plant in plants()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("plant", plants(), ids=lambda plant: plant.name)
def test_a_plant_changes_text_that_stands_once_in_its_file(plant):
    texts = {edit.file: (ROOT / edit.file).read_text(encoding="utf-8") for edit in plant.edits}
    for edit in plant.edits:
        changed = edit.applied(texts[edit.file])
        assert changed != texts[edit.file]
        texts[edit.file] = changed
    for file, text in texts.items():
        compile(text, file, "exec")


def test_few_are_left_to_tests_and_each_area_has_its_share():
    areas = Counter(plant.area for plant in plants())
    asked = ("credits and leases", "streams and retries", "tenants and passages", "storage")
    assert all(areas[area] >= 3 for area in asked)
    assert len(plants()) >= 24
    assert sum(bool(plant.test) for plant in plants()) <= 4


def test_the_tests_that_must_see_a_plant_are_there():
    for plant in plants():
        file, _, name = plant.test.partition("::")
        assert not file or f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), plant.name


def test_the_headline_counts():
    findings = [
        Finding("one", "frames", is_found=True, seeds=3, said="shown twice"),
        Finding("two", "storage", is_found=True, test="tests/unit/test_x.py"),
        Finding("three", "storage", is_found=False, seeds=300),
    ]
    assert headline(findings) == {"planted": 3, "found": 2, "found_by_seeds": 1}
    assert str(findings[0]) == f"seed {SEED + 2}: shown twice"
    assert str(findings[2]) == "NOT FOUND"
