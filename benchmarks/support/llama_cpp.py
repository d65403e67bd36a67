"""llama.cpp as a contender: its builds, SmolLM2's weights for it, and a process that answers."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from benchmarks.support.contender_process import ROOT
from heddle.app.models.smollm2 import DISTRIBUTION, GGUF_FILE, SMOLLM2
from heddle.core.cache import cache_directory
from heddle.core.errors import InputError

BUILDS: Final = "LLAMA_CPP_BUILDS"  # folders with libllama.so, the one to try first in front
LIBRARY: Final = "LLAMA_CPP_LIB_PATH"  # llama-cpp-python's own variable
PACKAGE: Final = "llama_cpp"
MODULE: Final = "benchmarks.contenders.llama_cpp_process"
INSTALL: Final = 'CMAKE_ARGS="-DGGML_NATIVE=ON" pip install llama-cpp-python'
UBATCHES: Final = (512, 2048)  # tokens of a step; the faster one counts
TRIED: Final = {"ids": [list(range(300, 364))], "answer": 4, "ubatch": UBATCHES[0]}


class LlamaCpp:
    """A process that has computed a first answer.

    `build` is its own description, `crashed` names the builds that came before and crashed.
    """

    def __init__(self, process: "subprocess.Popen[str]", build: str, crashed: list[str]) -> None:
        self._process = process
        self.build, self.crashed = build, crashed

    def seconds(self, ids: list[list[int]], answer: int) -> tuple[float, float]:
        """Return the seconds up to the first tokens, and from there to the last; each the best."""
        found = [
            _asked(self._process, {"ids": ids, "answer": answer, "ubatch": ubatch})
            for ubatch in UBATCHES
        ]
        assert all(one is not None for one in found), "a process that has answered goes on"
        answers = [one for one in found if one is not None]
        return min(one["prefill_s"] for one in answers), min(one["decode_s"] for one in answers)


@contextmanager
def llama_cpp(model: str, threads: int) -> Iterator[LlamaCpp]:
    """Start llama.cpp with a model in Q8_0; the first build that computes is taken.

    Raises: InputError: it isn't installed, the model has no GGUF file, or all builds crash.
    """
    if model != SMOLLM2:
        raise InputError(f"--against llama.cpp takes --model {SMOLLM2}, which has a GGUF file")
    if importlib.util.find_spec(PACKAGE) is None:
        raise InputError(f"--against llama.cpp needs the package llama-cpp-python: {INSTALL}")
    builds = os.environ.get(BUILDS, "").split(os.pathsep)
    crashed: list[str] = []
    path = _q8_file(builds[-1])
    for build in builds:
        process = _started(build, str(path), str(threads))
        assert process.stdout is not None
        try:
            words = process.stdout.readline()
            if words and _asked(process, TRIED) is not None:
                yield LlamaCpp(process, json.loads(words)["build"], crashed)
                return
        finally:
            process.kill()
            process.communicate()
        ended = f"signal {-process.returncode}" if process.returncode < 0 else "an error"
        crashed.append(f"{build or 'the package'}: {ended}")
        print(f"llama.cpp crashed, {crashed[-1]}", flush=True)
    raise InputError(f"llama.cpp crashes on this machine: {'; '.join(crashed)}")


def _asked(process: "subprocess.Popen[str]", question: object) -> dict[str, float] | None:
    """Return the answer to a line; None: the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print(json.dumps(question), file=process.stdin, flush=True)
        answer = process.stdout.readline()
    except BrokenPipeError:
        return None
    return json.loads(answer) if answer else None


def _q8_file(build: str) -> Path:
    path = cache_directory("bench", "llama-cpp") / "smollm2-q8_0.gguf"
    if not path.exists():
        source = Path(str(distribution(DISTRIBUTION).locate_file(GGUF_FILE)))
        part = path.with_suffix(".part")
        process = _started(build, str(source), "Q8_0", str(part))
        process.communicate()
        if process.returncode:
            raise InputError(f"llama.cpp can't write {path}")
        part.replace(path)
    return path


def _started(build: str, *arguments: str) -> "subprocess.Popen[str]":
    named = {LIBRARY: build, "LD_LIBRARY_PATH": build} if build else {}
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **named},
    )
