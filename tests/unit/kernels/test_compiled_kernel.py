"""The compiled kernel is built once, and its absence is reported."""

import mmap
import shutil
import subprocess
import tempfile
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.attention.choice import COMPILED, TORCH
from heddle.engines.llm.build import LlmSettings, assemble
from heddle.engines.llm.model import worker
from heddle.engines.llm.model.fused_layers import fuse_layers
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kernels import compiled_kernel, kernel_library
from heddle.kernels.compiled_kernel import (
    TILE_QUERIES,
    FoundKernel,
    RowKernel,
    find_row_kernel,
)
from heddle.kernels.kernel_library import c_compiler
from heddle.kv.rows import SlotRun
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.three_chunks import CHUNKS, PREFIX, QUESTION, TOLERANCE, rel_diff
from tests.helpers.tiny_models import prompt, tiny_model

needs_compiler = pytest.mark.skipif(c_compiler() is None, reason="there is no C compiler here")
needs_kernel = pytest.mark.skipif(
    find_row_kernel().kernel is None, reason=f"no kernel here: {find_row_kernel().problem}"
)


@pytest.fixture
def find(monkeypatch, tmp_path):
    """Return a search for the kernel that remembers nothing, with a cache of its own."""
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    return find_row_kernel.__wrapped__


@needs_kernel
def test_it_is_compiled_once(find, monkeypatch, tmp_path):
    commands, run = [], subprocess.run

    def counted(command, **options):
        commands.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    assert find().kernel is not None
    assert find().problem == ""
    assert len(commands) == 1
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".so"]


def test_without_a_compiler_it_says_what_to_install(find, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert find() == FoundKernel(None, "there is no C compiler: install gcc or clang, or set CC")


def test_a_compiler_that_is_named_is_the_only_one_looked_for(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O1")
    assert c_compiler() is None
    monkeypatch.setenv("CC", "gcc '")
    assert c_compiler() is None


@needs_kernel
def test_a_compiler_that_is_named_may_have_options(find, monkeypatch):
    monkeypatch.setenv("CC", f"env LC_ALL=C {c_compiler()} -O1")
    assert c_compiler().endswith(" -O1")
    assert find().problem == ""


@needs_compiler
def test_what_the_compiler_says_is_passed_on(find, monkeypatch, tmp_path):
    broken = tmp_path / "broken.c"
    broken.write_text("int attend_rows(void) { return nothing; }")
    monkeypatch.setattr(compiled_kernel, "SOURCE", broken)
    kernel, problem = find()
    assert kernel is None
    assert problem.startswith("its C source doesn't compile: ")
    assert "nothing" in problem


@needs_kernel
def test_a_cache_that_cannot_be_written_is_named(find, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "file"))
    assert find().kernel is not None
    assert str(tmp_path / "file") in caplog.text
    assert "for this process alone" in caplog.text


@needs_kernel
def test_a_library_that_somebody_else_can_have_written_is_not_loaded(find, tmp_path):
    find()
    (library,) = (tmp_path / "kernels").iterdir()
    library.write_bytes(b"planted")
    library.chmod(0o722)
    assert find().kernel is not None
    assert library.read_bytes() != b"planted"
    assert library.stat().st_mode & 0o077 == 0


@needs_kernel
def test_a_folder_that_others_can_write_to_is_closed_to_them(find, tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    assert find().kernel is not None
    assert folder.stat().st_mode & 0o777 == 0o700


@needs_kernel
def test_nothing_is_loaded_from_another_users_folder(find, monkeypatch, tmp_path, caplog):
    (tmp_path / "kernels").mkdir()
    monkeypatch.setattr(kernel_library, "own_folder", lambda folder: None)
    passing = tmp_path / "passing"
    passing.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(passing))
    assert find().kernel is not None
    assert "set HEDDLE_CACHE to a folder of your own" in caplog.text
    assert list((tmp_path / "kernels").iterdir()) == []
    assert list(passing.iterdir()) == [], "what was compiled for the process is gone"


@needs_kernel
def test_a_link_in_the_place_of_the_folder_is_not_followed(find, tmp_path, caplog):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kernels").symlink_to(tmp_path / "elsewhere")
    assert find().kernel is not None
    assert "set HEDDLE_CACHE to a folder of your own" in caplog.text
    assert list((tmp_path / "elsewhere").iterdir()) == []


@needs_compiler
def test_threads_of_another_kind_are_told(find, monkeypatch):
    monkeypatch.setattr(compiled_kernel, "_loaded_files", lambda: set())
    assert find().problem == "torch's threads are not those of one GNU OpenMP library"


@contextmanager
def mapped(library):
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        yield


@pytest.mark.parametrize("folder", ["torch", "a folder with blanks"])
def test_torch_s_threads_are_known_where_links_lead_to_torch(folder, tmp_path, monkeypatch):
    home = tmp_path / folder
    own, other = home / "lib" / "libgomp.so.1", tmp_path / "faiss_cpu.libs" / "libgomp-1.so"
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "link" / "__init__.py"))
    with mapped(own), mapped(other):
        assert compiled_kernel._torch_openmp() == own


def served(model):
    serving = FusedServing(model)
    reuse = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [chunk], QUESTION), reuse)
    logits = serving.ask(segments(PREFIX, CHUNKS, QUESTION), reuse)
    fused = next(reversed(serving.prefilled.values())).fused
    assert fused.tokens_shared
    return logits, fused


@needs_kernel
@pytest.mark.parametrize(
    ("tokens", "attention", "layers"),
    [
        (TILE_QUERIES, COMPILED, 2),
        (TILE_QUERIES - 1, COMPILED, 0),
        (TILE_QUERIES, TORCH, 0),
    ],
)
def test_it_computes_prompts_that_fill_a_tile(monkeypatch, tokens, attention, layers):
    model = tiny_model("llama", num_hidden_layers=2)
    fuse_layers(model)
    runs, run = [], RowKernel.run
    monkeypatch.setattr(RowKernel, "run", lambda *args: runs.append(run(*args)))
    places = np.arange(tokens)
    row = BatchRow(0, tokens, tokens, (SlotRun(0, tokens),), Draw())
    TransformersWorker(model, 64, attention=attention).run(
        StepBatch(places, places, places, (row,))
    )
    assert len(runs) == layers


def assembled(model):
    return assemble("llm", 1, LlmSettings("unused", attention=COMPILED), model, "tiny", None)


@needs_kernel
def test_who_insists_on_it_gets_it(caplog):
    caplog.set_level("INFO", logger="heddle")
    assembled(tiny_model("llama"))
    assert "attention is computed by compiled" in caplog.text


def test_a_model_that_it_does_not_suit_is_computed_by_torch(caplog):
    caplog.set_level("INFO", logger="heddle")
    assemble("llm", 1, LlmSettings("unused"), tiny_model("phi3"), "tiny", None)
    assert "attention is computed by torch" in caplog.text


def test_who_insists_on_it_is_told_why_it_cannot_be(monkeypatch):
    with pytest.raises(ConfigError, match="it takes a model of the Llama family in float32"):
        assembled(tiny_model("phi3"))
    monkeypatch.setattr(worker, "find_row_kernel", lambda **_: FoundKernel(None, "no compiler"))
    with pytest.raises(ConfigError, match=r"can't run: .* no compiler; use auto"):
        assembled(tiny_model("llama"))


@needs_kernel
@pytest.mark.parametrize("policy", ReusePolicy)
def test_prompts_of_every_policy_are_those_of_torch(policy):
    """Rows that are only checked, whose attention is logged, whose tokens lie apart."""
    model = tiny_model("llama")
    fuse_layers(model)
    question = prompt(TILE_QUERIES + 13, 4)
    reuse = KvReuse(policy, 0.3)
    found = []
    for attention in (TORCH, COMPILED):
        serving = FusedServing(model, attention=attention)
        for chunk in CHUNKS:
            serving.ask(segments(PREFIX, [chunk], question), reuse)
        found.append(serving.ask(segments(PREFIX, CHUNKS[::-1], question), reuse))
    assert rel_diff(found[1], found[0]) < TOLERANCE


def test_without_it_torch_computes_the_same_and_the_receipt_says_so(monkeypatch):
    model = tiny_model("llama")
    fuse_layers(model)
    logits, fused = served(model)
    assert not fused.notes
    monkeypatch.setattr(worker, "find_row_kernel", lambda **_: FoundKernel(None, "no compiler"))
    again, told = served(model)
    torch.testing.assert_close(again, logits, rtol=1e-4, atol=1e-4)
    assert told.notes == ("the attention of prompts is computed by torch: no compiler",)
