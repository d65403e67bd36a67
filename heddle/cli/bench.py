"""`heddle bench NAME [--quick] [--json FILE]`, some with options of their own, and `prepare`."""

import argparse
import ast
import importlib
import inspect
import os
import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from heddle.cli.arguments import add_json
from heddle.cli.command_parser import CommandParser
from heddle.core.cache import write_json
from heddle.core.errors import InputError, InternalError
from heddle.core.instruction_sets import SETS, TELLING_FLAGS, held, held_environment, machine_flags
from heddle.hosts.library_words import check_libraries, library_words
from heddle.hosts.machine import read_machine

REPORTED = ("heddle", "torch", "transformers", "faiss-cpu", "numpy", "tokenizers")
PREPARE = "prepare"
# What some benchmarks take besides: keyword arguments of their `run`, explained in their files.
RUNS: Final = {
    "frameworks": "LangGraph, Haystack and LlamaIndex Workflows",
    "teola": "what Teola compares itself with",
    "ratio": "mixes of workflows",
    "nprobe": "searches of several lengths",
    "offline": "all questions at once",
    "speculate": "with prompts computed ahead, and without",
    "simulated": "on the virtual clock",
}
"""Runs of `workflows` beside its main one."""
OWN_OPTIONS: Final = (
    "model",
    "dataset",
    "questions",
    "bar",
    "device",
    "dtype",
    "against",
    "tier",
    "store",
    "calibration",
    "host",
    "compare",
    *RUNS,
)


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "name", metavar="NAME", help="benchmark to run, `list` to show them, or `prepare`"
    )
    parser.add_argument("--quick", action="store_true", help="run a short smoke test")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed; default: 0")
    parser.add_argument(
        "--held",
        choices=tuple(SETS),
        help="compute with an older CPU's instructions only, in all libraries and processes",
    )
    add_json(parser)
    own = parser.add_argument_group("options of some benchmarks")
    own.add_argument("--model", metavar="DIR|NAME", help="model that writes the answers")
    own.add_argument("--dataset", metavar="NAME", help="data set to use; default: all")
    own.add_argument("--questions", type=int, metavar="N", help="questions of each data set")
    own.add_argument("--device", metavar="cpu|cuda", help="device to compute on")
    own.add_argument("--dtype", metavar="float32|bfloat16", help="number type to compute in")
    own.add_argument(
        "--against", metavar="NAME[,NAME]", help="of model-speed: transformers, llama.cpp, or both"
    )
    own.add_argument("--tier", metavar="host|disk", help="tier of stored KV; default: both")
    own.add_argument("--store", metavar="sqlite,postgres", help="stores of a corpus to compare")
    own.add_argument(
        "--bar", action="store_true", default=None, help="run only what the acceptance bar needs"
    )
    for name, words in RUNS.items():
        own.add_argument(
            f"--{name}", action="store_true", default=None, help=f"of workflows: run {words}"
        )
    own.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="result of `bench workflows` to calibrate the virtual clock by",
    )
    own.add_argument(
        "--host", choices=("ray",), help="of workflows: what places its LLM lane; with --compare"
    )
    own.add_argument(
        "--compare", choices=("process",), help="of workflows: what --host is compared with"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run a benchmark from the checkout's benchmarks/ folder and print its headline.

    Where it is to be held to fewer instructions, the command is started anew.
    """
    titles = benchmark_titles()
    if options.name == "list":
        for name, title in titles.items():
            print(f"{name:<18} {title}")
        return 0
    if options.name not in (*titles, PREPARE):
        raise InputError(
            f"benchmark {options.name!r} is unknown; there are {', '.join(titles)} and {PREPARE}"
        )
    if options.held is not None and held() is not SETS[options.held]:
        _start_held(options.held)
    try:
        module = importlib.import_module(f"benchmarks.{options.name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("heddle", "benchmarks")):
            raise
        raise InputError(
            f"benchmark {options.name} needs the package {error.name}, which isn't installed: "
            'pip install -r benchmarks/requirements.txt ".[server]"'
        ) from error
    own = _own_options(options, module.run)
    print((module.__doc__ or "").strip(), end="\n\n")
    machine = read_machine()
    print(f"machine: {machine.cpu_model}, {machine.cores} cores; quick: {options.quick}")
    print(f"instructions: {' '.join(sorted(machine.cpu_flags))}{_held_words()}\n")
    found: Mapping[str, Any] = module.run(quick=options.quick, seed=options.seed, **own)
    check_libraries()
    result = _result(options, found)
    for name, value in result["headline"].items():
        print(f"{name}: {value:.6g}")
    if options.json is not None:
        write_json(options.json, result)
    return 0


def _held_words() -> str:
    level = held()
    return "" if level is None else f"; held to {level.name}"


def _start_held(name: str) -> None:
    """Start this command anew, held to an instruction set: libraries choose as they are loaded.

    Raises: InputError: this CPU can't be held to it.
    """
    environment = held_environment(name)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def benchmark_titles() -> dict[str, str]:
    """Return the benchmarks of the checkout, each with what the first line of its file says.

    Raises:
        InputError: this is no checkout.
    """
    titles = {}
    for path in sorted(_benchmark_folder().glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))  # importing some loads torch
        runs = any(isinstance(part, ast.FunctionDef) and part.name == "run" for part in module.body)
        if runs and path.stem != PREPARE:
            title = (ast.get_docstring(module) or "").partition("\n")[0]
            titles[path.stem.replace("_", "-")] = title
    return titles


def prepared_corpus(*, quick: bool) -> Path:
    """Return the corpus of Wikipedia passages that benchmarks search, built first where it isn't.

    Args:
        quick: the one of 2,000 passages, not of 46,000.

    Raises:
        InputError: this is no checkout, or the passages aren't there.
    """
    _benchmark_folder()
    module = importlib.import_module("benchmarks.support.wiki_index")
    return Path(module.wiki_index(quick=quick).directory)


def _benchmark_folder() -> Path:
    """Return the checkout's benchmarks/, whose modules can then be imported.

    Raises:
        InputError: neither Heddle's own folder nor the current one is a checkout.
    Mutates: sys.path.
    """
    for root in checkout_roots():
        folder = root / "benchmarks"
        if (root / "heddle" / "__init__.py").is_file() and (folder / "__init__.py").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return folder
    raise InputError(
        "the installed package has no benchmarks: run `heddle bench` in a checkout of Heddle"
    )


def checkout_roots() -> tuple[Path, ...]:
    """Return where a checkout may be: around this module, and the current folder."""
    return Path(__file__).resolve().parents[2], Path.cwd()


def _own_options(
    options: argparse.Namespace, run_benchmark: Callable[..., object]
) -> dict[str, Any]:
    """Return the options that were given beyond those that every benchmark takes.

    Raises:
        InputError: this one has no such option.
    """
    taken = inspect.signature(run_benchmark).parameters
    given = {name: getattr(options, name) for name in OWN_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() - taken.keys():
        raise InputError(f"{options.name} has no option --{name}; its file says what it takes")
    return given


def _result(options: argparse.Namespace, found: Mapping[str, Any]) -> dict[str, Any]:
    headline = found["headline"]
    if not all(isinstance(v, int | float) for v in headline.values()):
        raise InternalError(f"the headline of {options.name} must be flat numbers: {headline}")
    return {
        "name": options.name,
        "machine": machine_record(),
        "versions": version_record(),
        "seed": options.seed,
        "settings": {**found["settings"], "quick": options.quick},
        "rows": found["rows"],
        "headline": headline,
    }


def machine_record() -> dict[str, object]:
    """Return the hardware as results name it, and the instructions that are in force.

    `libraries` holds the words of those that this process has loaded.
    """
    machine, level = read_machine(), held()
    return {
        "cpu": machine.cpu_model,
        "cores": machine.cores,
        "memory_bytes": machine.memory_limit_bytes,
        "gpus": list(machine.gpus),
        "instruction_sets": {
            "machine": sorted(machine_flags().intersection(TELLING_FLAGS)),
            "in_force": sorted(machine.cpu_flags),
            "held": None if level is None else level.name,
            "libraries": library_words(),
        },
        "python": platform.python_version(),
    }


def version_record() -> dict[str, str]:
    """Return the versions of what results depend on."""
    return {name: _version(name) for name in REPORTED}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
