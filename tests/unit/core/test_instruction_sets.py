"""The instructions that a process is held to, and the environment that says so to libraries."""

import pytest

from heddle.core import instruction_sets
from heddle.core.errors import ConfigError, InputError
from heddle.core.instruction_sets import (
    AVX2,
    KERNEL,
    SETS,
    check_words,
    compiler_options,
    flags_in_force,
    held,
    held_environment,
    holds_back,
    is_withheld,
    machine_flags,
    multiplies_bfloat16,
)

FLAGS = AVX2.needs | SETS["avx512"].needs | {"sse2", "avx_vnni", "avx512_bf16", "amx_bf16"}
TARGETS = ("X86_V3", "X86_V4", "AVX512_ICL")


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(instruction_sets, "machine_flags", lambda root=None: frozenset(FLAGS))
    monkeypatch.setattr(instruction_sets, "_numpy_targets", lambda: TARGETS)
    monkeypatch.delenv("HEDDLE_HELD", raising=False)


def test_each_set_withholds_what_is_beyond_it(machine, monkeypatch):
    assert held() is None
    assert flags_in_force() == FLAGS
    assert compiler_options() == ("-march=native",)
    assert holds_back(AVX2)
    assert not is_withheld("amx_bf16")
    monkeypatch.setenv("HEDDLE_HELD", "avx512")
    assert flags_in_force() == FLAGS - {"amx_bf16"}
    assert "-mno-amx-bf16" in compiler_options()
    assert holds_back(AVX2)
    monkeypatch.setenv("HEDDLE_HELD", "avx2")
    assert flags_in_force() == AVX2.needs | {"sse2"}
    assert compiler_options() == ("-march=haswell",)
    assert not holds_back(AVX2)


@pytest.mark.parametrize(
    ("flags", "held_to", "multiplies"),
    [
        ({"amx_bf16"}, None, True),
        ({"avx512_bf16"}, None, True),
        ({"amx_bf16"}, "avx512", False),
        ({"amx_bf16", "avx512_bf16"}, "avx512", True),
        ({"amx_bf16", "avx512_bf16"}, "avx2", False),
        (set(), None, False),
    ],
)
def test_what_multiplies_bfloat16(monkeypatch, flags, held_to, multiplies):
    monkeypatch.setattr(instruction_sets, "machine_flags", lambda _: frozenset(flags | AVX2.needs))
    monkeypatch.setenv("HEDDLE_HELD", held_to or "")
    assert multiplies_bfloat16() is multiplies
    assert multiplies_bfloat16(frozenset(flags)) is bool(flags)


def test_a_held_child_keeps_the_rest_of_the_environment(machine, monkeypatch):
    monkeypatch.setenv("HELD_TEST", "kept")
    monkeypatch.setenv("FAISS_SIMD_LEVEL", "NONE")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "X86_V4")
    child = held_environment("avx2")
    assert child.items() >= {**AVX2.variables, "HEDDLE_HELD": "avx2", "HELD_TEST": "kept"}.items()
    assert child["NPY_DISABLE_CPU_FEATURES"] == "X86_V4 AVX512_ICL"
    wider = held_environment("avx512")
    assert wider["FAISS_SIMD_LEVEL"] == "AVX512"
    assert "NPY_DISABLE_CPU_FEATURES" not in wider


def test_what_a_cpu_lacks_it_cannot_be_held_to(machine, monkeypatch):
    with pytest.raises(InputError, match="held to avx2 or avx512, not to 'mmx'"):
        held_environment("mmx")
    monkeypatch.setattr(instruction_sets, "machine_flags", lambda: AVX2.needs - {"fma"})
    with pytest.raises(InputError, match="can't be held to avx2: it has no fma"):
        held_environment("avx2")
    monkeypatch.setenv("HEDDLE_HELD", "mmx")
    with pytest.raises(ConfigError, match="HEDDLE_HELD must be one of avx2, avx512, got 'mmx'"):
        held()


def test_a_library_that_does_not_follow_is_named(machine, monkeypatch):
    words = {"torch": "AVX512", f"{KERNEL}, float32": "avx512", "faiss": "AVX2", "other": "x"}
    check_words(words)  # held to nothing
    monkeypatch.setenv("HEDDLE_HELD", "avx2")
    said = r"held to avx2, but torch says 'AVX512'; compiled kernel, float32 says 'avx512': start"
    with pytest.raises(ConfigError, match=said):
        check_words(words)


def test_flags_are_read_where_the_system_tells_them(tmp_path):
    assert machine_flags(tmp_path) == frozenset()
    (tmp_path / "proc").mkdir()
    text = "model name : X\nflags\t\t: avx2 amx_bf16\n\nflags\t\t: avx2 amx_bf16\n"
    (tmp_path / "proc/cpuinfo").write_text(text)
    assert machine_flags(tmp_path) == {"avx2", "amx_bf16"}
