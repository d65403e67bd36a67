"""Plant bugs in a copy of the tree, and see the simulator find them: `python -m tools.plants`.

Each plant of `plants.toml` is applied alone; then `python -m heddle.simulator` runs 300 seeds and
must end with an error. A few plants name a test instead, which must fail. Exit code 1: a plant was
not found or can't be applied any more, or something is red without any. Takes a few minutes.
"""

import argparse
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from heddle.cli.bench import machine_record, version_record
from heddle.core.cache import write_json
from tools.mutants import ROOT, Copy, Edit, MutantError

SEED: Final = 100_000
SEEDS: Final = 300
_BROKEN_SEED: Final = re.compile(r"^simulation of seed (\d+) broke:\n +(.+)$", re.M)


@dataclass(frozen=True, slots=True)
class Plant:
    """One bug: what part of Heddle it is in, its edits, and the test that finds it.

    Without `test` the simulator's command has to find it.
    """

    name: str
    area: str
    edits: tuple[Edit, ...]
    test: str = ""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Plant":
        """Return what one entry of the list says."""
        edits = tuple(Edit(**edit) for edit in entry["edits"])
        return cls(entry["name"], entry["area"], edits, entry.get("test", ""))


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a plant: the seed or the test that has found it, and the words for it.

    `seeds` counts the seeds that were run up to then.
    """

    name: str
    area: str
    is_found: bool
    seeds: int = 0
    test: str = ""
    said: str = ""

    @property
    def is_by_seeds(self) -> bool:
        """Whether the simulator's command has found it."""
        return self.is_found and not self.test

    def __str__(self) -> str:
        if not self.is_found:
            return f"NOT FOUND: {self.said}" if self.said else "NOT FOUND"
        return f"{self.test or f'seed {SEED + self.seeds - 1}'}: {self.said}"


def plants() -> list[Plant]:
    """Return the list, in its order."""
    text = (ROOT / "tools" / "plants.toml").read_text(encoding="utf-8")
    return [Plant.of(entry) for entry in tomllib.loads(text)["plant"]]


def looked_for(copy: Copy, plant: Plant) -> Finding:
    """Apply a plant and return whether it is found."""
    try:
        with copy.changed(plant.edits):
            if not plant.test:
                return _by_seeds(copy, plant)
            test = copy.failed((plant.test,))
            return Finding(plant.name, plant.area, test is not None, 0, plant.test, "it fails")
    except MutantError as error:
        return Finding(plant.name, plant.area, is_found=False, said=str(error))


def _by_seeds(copy: Copy, plant: Plant) -> Finding:
    """Run the simulator's command.

    Raises:
        MutantError: it fails for another reason than a broken rule.
    """
    code, found, output = simulated(copy)
    if code == 0:
        return Finding(plant.name, plant.area, is_found=False, seeds=SEEDS)
    if found is None:
        raise MutantError(f"the simulator can't be run:\n{output[-2000:]}")
    seeds, said = int(found[1]) - SEED + 1, found[2][:200]
    return Finding(plant.name, plant.area, is_found=True, seeds=seeds, said=said)


def simulated(copy: Copy) -> tuple[int, re.Match[str] | None, str]:
    """Run the seeds in the copy; return the exit code, what names a broken seed, and the rest."""
    options = ("--seed", str(SEED), "--count", str(SEEDS))
    done = copy.python("-m", "heddle.simulator", *options)
    return done.returncode, _BROKEN_SEED.search(done.stderr), done.stderr


def is_sound(copy: Copy, chosen: Sequence[Plant]) -> bool:
    """Whether seeds and tests find nothing where nothing is planted; say so if they do."""
    code, _, output = simulated(copy)
    if code:
        print(f"the simulator fails without any plant: mend that first\n{output[-2000:]}")
        return False
    tests = [plant.test for plant in chosen if plant.test]
    red = copy.failed(tests) if tests else None
    if red is not None:
        print(f"{red} fails without any plant: mend that first")
    return red is None


def headline(findings: Sequence[Finding]) -> dict[str, int]:
    """Return how many were planted, found, and found by the simulator's command."""
    return {
        "planted": len(findings),
        "found": sum(finding.is_found for finding in findings),
        "found_by_seeds": sum(finding.is_by_seeds for finding in findings),
    }


def main() -> int:
    """Try every plant, or those whose names hold a word; 1 where one is not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("word", nargs="?", default="", help="only plants whose names hold this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    options = parser.parse_args()
    chosen = [plant for plant in plants() if options.word in plant.name]
    findings = []
    with tempfile.TemporaryDirectory(prefix="plants-") as folder:
        copy = Copy(Path(folder))
        if not is_sound(copy, chosen):
            return 1
        for plant in chosen:
            findings.append(looked_for(copy, plant))
            print(f"{plant.name} ({plant.area})\n    {findings[-1]}", flush=True)
    figures = headline(findings)
    print(", ".join(f"{name} {value}" for name, value in figures.items()))
    if options.json is not None:
        write_json(options.json, _result(findings, figures))
    return 0 if findings and figures["found"] == figures["planted"] else 1


def _result(findings: Sequence[Finding], figures: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": "plants",
        "machine": machine_record(),
        "versions": version_record(),
        "seed": SEED,
        "settings": {"seeds": SEEDS, "areas": dict(Counter(f.area for f in findings))},
        "rows": [asdict(finding) for finding in findings],
        "headline": figures,
    }


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Leaves the description's lines as they are."""


if __name__ == "__main__":
    sys.exit(main())
