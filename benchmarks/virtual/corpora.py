"""The virtual machines with their requests: light and heavy as a real run had them, and gpu."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from benchmarks.virtual.calibration import Calibration, Check, RealRun
from benchmarks.virtual.load import Corpus
from benchmarks.virtual.machine import GPU
from benchmarks.virtual.scripts import Script
from heddle.core.errors import InternalError

REAL: Final = Path(__file__).parents[2] / "docs" / "results" / "coscheduling-calibration.json"
RECORD: Final = Path(__file__).with_name("recorded_work.json")
"""The work of requests, for runs that have not recorded theirs."""
ERROR_MAX: Final = 0.15
GPU_IN_FLIGHT: Final = 64
GPU_NPROBES: Final = (256,)
GPU_WRITTEN: Final = {"answer": 60, "imagine": 100, "decompose": 60, "compress": 128}
"""Mean tokens that a model of 8 billion parameters writes, by node; the rest as recorded."""


@dataclass(frozen=True, slots=True)
class Corpora:
    """The virtual machines by name, and what a result says of where they come from."""

    by_name: dict[str, Corpus]
    facts: dict[str, object]

    @classmethod
    def calibrated(cls, real: Path | None) -> Self:
        """Return the machines that a real run calibrates; None = the published run.

        Raises:
            InternalError: they do not reproduce that run.
            InputError: the file can't be read.
        """
        path = real or REAL
        run = RealRun.read(path, RECORD)
        if not run.has_own_record:
            print(f"{path.name} has no record of its work: that of {RECORD.name} stands in")
        found = Calibration.of(run)
        checks = [check for one in found.values() for check in one.checks()]
        refuse(checks)
        by_name = {name: one.corpus for name, one in found.items()}
        by_name["gpu"] = on_gpu(by_name["light"])
        facts: dict[str, object] = {
            "calibration": path.name,
            "has_own_record": run.has_own_record,
            "factors": {name: one.factors for name, one in found.items()},
            "checks": [asdict(check) for check in checks],
        }
        return cls(by_name, facts)


def refuse(checks: Sequence[Check]) -> None:
    """Print how the virtual machine compares with the real one.

    Raises:
        InternalError: it is off by more than 15 % somewhere.
    """
    for check in checks:
        print(
            f"{check.corpus:<5} {check.contender:<13} p50 real {check.real_s:.3f} s, "
            f"virtual {check.virtual_s:.3f} s: {check.error:+.0%}",
            flush=True,
        )
    wrong = [check for check in checks if abs(check.error) > ERROR_MAX]
    if wrong:
        said = ", ".join(f"{c.corpus} {c.contender} {c.error:+.0%}" for c in wrong)
        raise InternalError(
            f"the virtual machine does not reproduce the real cells within {ERROR_MAX:.0%}: {said}"
        )


def on_gpu(corpus: Corpus) -> Corpus:
    """Return the corpus's requests on a GPU, with texts as long as a larger model's."""
    scripts = {
        name: [_writing_more(script, known) for script in known]
        for name, known in corpus.scripts.items()
    }
    return Corpus(GPU, scripts, GPU_NPROBES, corpus.passages, GPU_IN_FLIGHT)


def _writing_more(script: Script, known: Sequence[Script]) -> Script:
    """Return a script whose texts have the GPU model's mean length over all of `known`."""
    for node, tokens in GPU_WRITTEN.items():
        written = [one.written(node) for one in known]
        if all(written):
            factor = tokens / statistics.fmean(written)
            script = script.writing(node, max(1, round(factor * script.written(node))))
    return script
