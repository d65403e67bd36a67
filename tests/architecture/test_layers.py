"""The layers and what may be imported where, as tests."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import heddle
import heddle.core.errors
import heddle.engines
import heddle.passes

ROOT = Path(__file__).parents[2]
DEVICE_PACKAGES = ("torch", "faiss", "transformers", "numba", "ray", "fastapi", "triton")
DECIDING_PACKAGES = ("core", "costs", "graph", "workflow", "lowering", "passes", "runtime")
DECIDING_FILES = {"scheduler", "engine", "ivf_searches", "graph_searches"}
NOT_PASSES = {"runner", "cycle_view", "edit_check", "rewrite_check"}


def test_import_layers_hold() -> None:
    # In a process of its own: the linter's logging set-up would silence our loggers here.
    script = (
        "import sys; from importlinter.cli import lint_imports; "
        "sys.exit(lint_imports(config_filename='importlinter.toml', no_cache=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def deciding_modules() -> list[str]:
    modules = ["heddle", "heddle.simulator"]
    for package in DECIDING_PACKAGES:
        found = importlib.import_module(f"heddle.{package}")
        modules += [
            f"heddle.{package}.{module.name}" for module in pkgutil.iter_modules(found.__path__)
        ]
    for engine in pkgutil.iter_modules(heddle.engines.__path__):
        folder = ROOT / "heddle" / "engines" / engine.name
        modules += [
            ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for path in sorted(folder.rglob("*.py"))
            if path == folder / "build.py" or path.stem in DECIDING_FILES
        ]
    return modules


def test_what_decides_loads_no_device_package() -> None:
    script = (
        "import sys, importlib\n"
        f"for name in {deciding_modules()!r}: importlib.import_module(name)\n"
        f"print([name for name in {DEVICE_PACKAGES!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_importing_heddle_loads_neither_numpy_nor_torch() -> None:
    script = "import sys, heddle; print([n for n in ('numpy', 'torch') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves() -> None:
    assert {name for name in heddle.__all__ if getattr(heddle, name) is None} == set()


def test_every_error_and_every_event_is_public() -> None:
    errors = {name for name, value in vars(heddle.core.errors).items() if isinstance(value, type)}
    events = {kind.__name__ for kind in get_args(heddle.RequestEvent)}
    assert {"Busy", "Answer"} < errors | events < set(heddle.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Retriever'"):
        _ = heddle.Retriever


def test_naming_events_and_errors_loads_no_device_package() -> None:
    script = (
        "import sys\nfrom heddle import Answer, Busy, Handle, Receipt, TokenDelta\n"
        f"print([name for name in {DEVICE_PACKAGES!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["ask", "chat", "search"])
def test_a_command_that_may_ask_a_running_server_loads_no_engine_at_first(command: str) -> None:
    engines = ("heddle.app.server", "heddle.app.assembly", "heddle.engines.llm.engine")
    script = (
        f"import sys, heddle.cli.{command}\n"
        f"print([name for name in {engines!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


PASSES = [m.name for m in pkgutil.iter_modules(heddle.passes.__path__) if m.name not in NOT_PASSES]


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_file_holds_one_pass_and_has_its_test(name: str) -> None:
    module = importlib.import_module(f"heddle.passes.{name}")
    assert hasattr(module, name.title().replace("_", ""))
    assert (ROOT / f"tests/unit/passes/test_{name}.py").exists()
