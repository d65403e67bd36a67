"""What decides runs without a device, so a laptop can simulate what a server does."""

import subprocess
import sys
from pathlib import Path

import pytest

import heddle

HEAVY = ("torch", "faiss", "transformers", "ray", "fastapi", "numba", "triton")
ROOT = Path(heddle.__file__).parent
ENGINE_MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for name in ("scheduler", "engine", "ivf_searches", "graph_searches")
    for path in ROOT.glob(f"engines/**/{name}.py")
)
MODULES = (
    "heddle.simulator.simulation",
    "heddle.simulator.__main__",
    "heddle.runtime.runtime",
    "heddle.runtime.loop",
    "heddle.passes.runner",
    *ENGINE_MODULES,
)


def test_every_engine_is_here():
    assert len(ENGINE_MODULES) >= 6


@pytest.mark.parametrize("module", MODULES)
def test_imports_nothing_heavy(module):
    script = f"import sys, {module}\nprint([name for name in {HEAVY} if name in sys.modules])"
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
