"""Models with weights of 8 bits: what they write, where their weights are, and what is refused."""

import dataclasses
import shutil

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GenerationConfig

from benchmarks.llm_parity import LENGTHS, MODES, Serving, serve
from heddle.core.commands import Admit
from heddle.core.errors import ConfigError
from heddle.core.frames import Done
from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Generated
from heddle.core.tasks import Identity, Task
from heddle.engines.llm.build import LlmSettings, build_engine
from heddle.engines.llm.model import gate
from heddle.engines.llm.model.grid import Grid, round_to_grid
from heddle.engines.llm.quantized import quantized_file, quantized_model
from heddle.engines.llm.quantized.grid_file import GRID_FILE, GridArrays, write_grid_file
from heddle.engines.llm.quantized.quantized_file import (
    EMBEDDING,
    put_on_grids,
    quantized_fingerprint,
    quantized_weights,
)
from heddle.engines.llm.quantized.quantized_linear import QuantizedLinear
from heddle.engines.llm.quantized.quantized_model import load_quantized
from heddle.kernels.compiled_kernel import FoundKernel, find_row_kernel
from tests.helpers.tiny_models import FAMILIES, VOCABULARY, prompt, tiny_model

CPU = torch.device("cpu")
TOKENS = 12
pytestmark = pytest.mark.skipif(
    find_row_kernel().kernel is None, reason=f"no kernel here: {find_row_kernel().problem}"
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEDDLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def saved(tmp_path_factory, cache):
    """Return a function that saves a family's tiny model, each once."""
    folders = {}

    def save(family, **overrides):
        key = (family, *overrides)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp(family)
            tiny_model(family, **overrides).save_pretrained(folders[key])
            words = {f"w{index}": index for index in range(VOCABULARY)}
            tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
            tokenizer.pre_tokenizer = Whitespace()
            tokenizer.save(str(folders[key] / "tokenizer.json"))
        return folders[key]

    return save


def settings(model_dir, **changes):
    base = LlmSettings(model_dir, dtype="float32", device="cpu", kv_bytes=4 << 20, weights="int8")
    return dataclasses.replace(base, **changes)


def written(engine, token_ids, *, ignore_eos=True):
    """Return the tokens that an engine writes behind a prompt, each the likeliest."""
    prefill = PrefillPayload((Segment(token_ids),))
    engine.apply(Admit(Task(1, PrimitiveKind.PREFILLING, Identity(1, "n"), prefill)))
    decode = DecodePayload(1, Sampling(TOKENS, ignore_eos=ignore_eos))
    engine.apply(Admit(Task(2, PrimitiveKind.DECODING, Identity(1, "n"), decode)))
    results = {}
    while engine.has_work:
        for event in engine.step(0.0, float("inf")).events:
            if isinstance(event, Done):
                results[event.task_id] = event.result
    return results[2].token_ids


@torch.no_grad()
def oracle(family, **overrides):
    """Return transformers' model with the same grids, multiplied number by number."""
    model = tiny_model(family, **overrides)
    embedding = model.model.embed_tokens.weight
    embedding.copy_(round_to_grid(embedding, "embedding").values())
    put_on_grids(model, {}, frozenset(["lm_head"]) if overrides else frozenset())
    return model


@torch.no_grad()
def expected(family, token_ids, **overrides):
    """Return the tokens that the oracle writes, each the likeliest."""
    model = oracle(family, **overrides)
    ids = list(token_ids)
    for _ in range(TOKENS):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[len(token_ids) :])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_writes_what_its_grids_say(saved, family):
    engine = build_engine("llm", 1, settings(saved(family)))
    for length in (5, 40):  # below the rows of whole numbers, and above
        token_ids = prompt(length, 0)
        assert written(engine, token_ids) == expected(family, token_ids)
    engine.close()


@pytest.mark.parametrize("mode", MODES)
def test_batches_chunks_preemption_and_handing_over_change_no_token(saved, mode):
    directory, exact = saved("llama"), oracle("llama")
    model = load_quantized(directory, gate.load_config(directory), torch.float32, CPU)
    prompts = [prompt(length, length) for length in LENGTHS]
    for served in serve(model, prompts, mode):
        assert served.tokens_equal(exact)
        assert served.rel_diff(exact) < 1e-3  # rows on their grid of 15 bits


def test_drafts_change_no_token(saved):
    directory = saved("llama")
    model = load_quantized(directory, gate.load_config(directory), torch.float32, CPU)
    token_ids = prompt(17, 3)
    [plain] = serve(model, [token_ids], "alone")
    serving = Serving(model)
    serving.prefill(0, token_ids)
    serving.decode(0, token_ids, draft=(*plain.token_ids[:4], 7, 8))
    accepted = 0
    while serving.engine.has_work:
        for event in serving.engine.step(0.0, float("inf")).events:
            if isinstance(event, Done) and isinstance(event.result, Generated):
                accepted = event.result.accepted
                assert event.result.token_ids == plain.token_ids
    assert accepted >= 4


def test_a_head_that_is_tied_reads_the_embedding_s_panels(saved):
    tied = {"tie_word_embeddings": True}
    directory = saved("llama", **tied)
    token_ids = prompt(9, 1)
    engine = build_engine("llm", 1, settings(directory))
    assert written(engine, token_ids) == expected("llama", token_ids, **tied)
    config = gate.load_config(directory)
    model = load_quantized(directory, config, torch.float32, CPU)
    assert model.lm_head.panels.data.data_ptr() == model.model.embed_tokens.panels.data.data_ptr()


@pytest.mark.skipif(not multiplies_bfloat16(), reason="the CPU is slow in bfloat16")
def test_in_bfloat16_layers_are_fused_and_chunks_can_be_reused(saved):
    directory = saved("llama")
    engine = build_engine("llm", 1, settings(directory, dtype="bfloat16", chunk_kv_bytes=1 << 20))
    assert engine.reuse_problem == ""
    assert len(written(engine, prompt(40, 0))) == TOKENS
    config = gate.load_config(directory)
    model = load_quantized(directory, config, torch.bfloat16, CPU)
    assert isinstance(model.model.layers[0].self_attn.qkv_proj, QuantizedLinear)


def test_chunks_can_be_reused_in_float32(saved):
    engine = build_engine("llm", 1, settings(saved("llama"), chunk_kv_bytes=1 << 20))
    assert engine.reuse_problem == ""


def test_weights_are_brought_onto_their_grid_once(saved, monkeypatch):
    directory = saved("qwen2")
    config = gate.load_config(directory)
    before = quantized_weights(directory, config, is_fused=True)
    monkeypatch.setattr(quantized_file, "load_model", None)
    after = quantized_weights(directory, config, is_fused=True)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_grid_that_a_directory_brings_is_kept_as_it_is(saved):
    directory = saved("llama")
    name = "model.layers.0.mlp.down_proj"
    torch.manual_seed(0)
    codes = torch.randint(0, 16, (64, 128), dtype=torch.uint8)
    own = Grid(codes, torch.rand(64, 4).half(), -torch.rand(64, 4).half())
    without = quantized_fingerprint(directory, "float32")
    write_grid_file(directory, {name: GridArrays(*(part.numpy() for part in own))})
    try:
        assert quantized_fingerprint(directory, "float32") != without
        config = gate.load_config(directory)
        model = load_quantized(directory, config, torch.float32, CPU)
        found = model.model.layers[0].mlp.down_proj.panels
        assert torch.equal(found.rows(torch.arange(64)), own.values())
    finally:
        (directory / GRID_FILE).unlink()


def test_texts_end_where_the_generation_config_says(saved, tmp_path):
    directory, token_ids = tmp_path / "model", prompt(5, 0)
    shutil.copytree(saved("llama"), directory)
    third = expected("llama", token_ids)[2]
    config = GenerationConfig.from_pretrained(directory)
    config.eos_token_id = [config.eos_token_id, third]  # as chat models name another one there
    config.save_pretrained(directory)
    engine = build_engine("llm", 1, settings(directory))
    assert len(written(engine, token_ids, ignore_eos=False)) <= 2
    engine.close()


def test_kv_of_other_weights_has_another_fingerprint(saved):
    engines = [
        build_engine("llm", 1, settings(saved("llama"), weights=weights))
        for weights in ("full", "int8")
    ]
    assert len({engine._spec.fingerprint for engine in engines}) == len(engines)


def test_a_file_that_was_cut_short_is_made_again(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    directory = saved("llama")
    config = gate.load_config(directory)
    whole = quantized_weights(directory, config, is_fused=True)
    [path] = (tmp_path / "weights").glob("*.safetensors")
    content = path.read_bytes()
    path.unlink()  # what is mapped stays
    path.write_bytes(content[: len(content) // 2])
    again = quantized_weights(directory, config, is_fused=True)
    assert torch.equal(again[f"{EMBEDDING}.panels"], whole[f"{EMBEDDING}.panels"])


def test_what_a_killed_process_left_half_written_is_removed(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    directory = saved("llama")
    config = gate.load_config(directory)
    quantized_weights(directory, config, is_fused=True)
    [path] = (tmp_path / "weights").glob("*.safetensors")
    path.rename(path.with_name(f"{path.name}.1.part"))
    quantized_weights(directory, config, is_fused=True)
    assert [path] == [found for found in path.parent.iterdir() if found.suffix != ".lock"]


def test_what_cannot_run_is_refused(saved, monkeypatch):
    directory = saved("llama")
    config = gate.load_config(directory)
    with pytest.raises(ConfigError, match="for CPUs, and the model runs on cuda: use device cpu"):
        load_quantized(directory, config, torch.float32, torch.device("cuda"))
    with pytest.raises(ConfigError, match="weights is 'int4'; use one of full, int8"):
        settings(directory, weights="int4")
    uneven = saved("llama", hidden_size=48)
    with pytest.raises(ConfigError, match=r"multiple of 32 inputs; .* has 48: use weights full"):
        build_engine("llm", 1, settings(uneven))
    missing = lambda **_: FoundKernel(None, "there is no C compiler")  # noqa: E731
    monkeypatch.setattr(quantized_model, "find_row_kernel", missing)
    with pytest.raises(ConfigError, match="takes a compiled kernel: there is no C compiler"):
        build_engine("llm", 1, settings(directory))
