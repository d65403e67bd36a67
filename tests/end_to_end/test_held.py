"""A process that is held to AVX2 computes with AVX2, in every library and in its benchmarks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from heddle.core.instruction_sets import AVX2, SETS, held_environment, machine_flags

pytestmark = pytest.mark.skipif(
    not machine_flags() >= AVX2.needs, reason="the CPU can't be held to AVX2"
)
PROGRAM = """
import json, faiss, numba, numpy, torch
from heddle.kernels.compiled_kernel import find_row_kernel
from heddle.engines.llm.model.packed_linear import PackedLinear
from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.hosts.library_words import check_libraries, library_words
from heddle.hosts.machine import read_machine

@numba.njit
def doubled(numbers, result):
    for i in range(numbers.shape[0]):
        result[i] = numbers[i] * 2

doubled(numpy.ones(64, numpy.float32), numpy.ones(64, numpy.float32))
matrix = torch.ones(64, 64)
matrix @ matrix
PackedLinear(torch.nn.Linear(64, 64))(matrix)
find_row_kernel()
check_libraries()
print(json.dumps({
    "words": library_words(),
    "has bfloat16": multiplies_bfloat16() or read_machine().has_fast_bfloat16,
    "zmm": "zmm" in next(iter(doubled.inspect_asm().values())),
}))
"""


def test_every_library_says_so():
    verbose = {"MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    command = [sys.executable, "-c", PROGRAM]
    environment = {**held_environment("avx2"), **verbose}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    found = json.loads(last)
    assert not found["has bfloat16"]
    assert not found["zmm"]
    words = {name.partition(",")[0]: word for name, word in found["words"].items()}
    assert words.keys() >= AVX2.words.keys() - {"openblas"}
    assert all(words[name] in AVX2.words[name] for name in words)
    if "MKL_VERBOSE" in done.stdout:  # a torch for x86 has it
        # Of a CPU that isn't Intel's it names no set.
        named = ("Intel(R) AVX2) enabled", "Intel(R) Architecture processors")
        assert any(words in line for line in said if "oneMKL" in line for words in named)
    assert any("cpu,isa:Intel AVX2" in line for line in said if line.startswith("onednn"))


@pytest.mark.parametrize("held", sorted(SETS))
def test_a_benchmark_records_it(start, tmp_path: Path, held: str):
    if not machine_flags() >= SETS[held].needs:
        pytest.skip(f"the CPU can't be held to {held}")
    result = tmp_path / "result.json"
    command = start("bench", "windve-estimator", "--quick", "--held", held, "--json", result)
    assert command.end() == 0, command.said
    assert f"; held to {held}\n" in command.said
    recorded = json.loads(result.read_text())["machine"]["instruction_sets"]
    assert recorded["held"] == held
    withheld = {flag for flag in recorded["machine"] if flag.startswith(SETS[held].withheld)}
    assert set(recorded["in_force"]) == set(recorded["machine"]) - withheld
    word = recorded["libraries"]["numpy"]
    assert word in SETS[held].words.get("numpy", (word,))
