"""From a saved model directory to an engine that answers."""

import dataclasses
import gc
import pickle
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from heddle.core.commands import Admit
from heddle.core.errors import ConfigError
from heddle.core.frames import Done
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.llm.attention import choice
from heddle.engines.llm.build import (
    LlmSettings,
    _with_device_pages,
    attention_on,
    build_engine,
    spec_of,
)
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.reuse import gate as reuse_gate
from tests.helpers.tiny_models import VOCABULARY, prompt, tiny_model


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_model("llama").save_pretrained(folder)
    words = {f"w{index}": index for index in range(VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def settings(model_dir, **changes):
    base = LlmSettings(model_dir, dtype="float32", device="cpu", kv_bytes=4 << 20)
    return dataclasses.replace(base, **changes)


def answer_of(engine):
    payload = PrefillPayload((Segment(prompt(9, 0)),))
    engine.apply(Admit(Task(1, PrimitiveKind.PREFILLING, Identity(1, "n"), payload)))
    decode = DecodePayload(1, Sampling(4, ignore_eos=True))
    engine.apply(Admit(Task(2, PrimitiveKind.DECODING, Identity(1, "n"), decode)))
    results = {}
    while engine.has_work:
        for event in engine.step(0.0, float("inf")).events:
            if isinstance(event, Done):
                results[event.task_id] = event.result
    return results[2]


def test_a_saved_model_answers(model_dir):
    generated = answer_of(build_engine("llm", 1, settings(model_dir)))
    assert len(generated.token_ids) == 4
    assert generated.text.split() == [f"w{token}" for token in generated.token_ids]


def test_a_dropped_engine_gives_its_pool_back_without_the_garbage_collector(model_dir, monkeypatch):
    pools = []
    run = TransformersWorker.run

    def noting(worker, batch):
        pools.append(weakref.ref(worker.store))
        return run(worker, batch)

    monkeypatch.setattr(TransformersWorker, "run", noting)
    gc.collect()
    gc.disable()
    try:
        engine = build_engine("llm", 1, settings(model_dir, chunk_kv_bytes=1 << 20))
        answer_of(engine)
        engine.close()
        del engine
        assert pools
        assert pools[-1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("context", "steps"), [(None, [8, 8, 1]), (16, [8, 8]), (1, [])])
def test_the_first_steps_are_done_and_leave_nothing_behind(model_dir, monkeypatch, context, steps):
    batches = []
    run = TransformersWorker.run
    monkeypatch.setattr(
        TransformersWorker, "run", lambda self, batch: batches.append(batch) or run(self, batch)
    )
    engine = build_engine("llm", 1, settings(model_dir, context_tokens_max=context))
    assert [batch.tokens for batch in batches] == steps
    assert not engine.has_work
    engine.check()
    assert engine.scheduler.kv_cache.ledger.free_count == engine.scheduler.limits.page_count
    assert not len(engine.scheduler.kv_cache.index)
    frame = engine.step(0.0, float("inf"))
    assert (frame.events, frame.features, frame.costs.samples) == ((), {}, 0)


def test_a_context_may_be_as_long_as_yarn_stretches_it(model_dir):
    model = tiny_model("qwen3-yarn", max_position_embeddings=320)  # 256 that count four times
    for wanted in (None, 1024):
        spec = spec_of(settings(model_dir, context_tokens_max=wanted), model, "")
        assert spec.limits.context_tokens_max == 1024
    with pytest.raises(ConfigError, match="the model was made for 1024"):
        spec_of(settings(model_dir, context_tokens_max=1025), model, "")


def test_a_model_whose_kv_can_not_be_reused_says_so_where_it_was_to_be(model_dir, monkeypatch):
    monkeypatch.setattr(reuse_gate, "tokens_can_be_left_out", lambda worker: False)
    engine = build_engine("llm", 1, settings(model_dir, chunk_kv_bytes=1 << 20))
    assert engine.has_work, "it has something to tell before anybody asks"
    [note] = engine.step(0.0, float("inf")).notes
    assert "chunk KV is not reused: this model computes something else" in note
    assert not engine.has_work
    assert build_engine("llm", 1, settings(model_dir)).step(0.0, float("inf")).notes == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kv_bytes": 100}, "kv_bytes"),
        ({"context_tokens_max": 5000}, "context_tokens_max is 5000"),
        ({"context_tokens_max": 1024, "kv_bytes": 100_000}, "raise kv_bytes"),
        ({"device": "warp"}, "device"),
        ({"device": "cuda"}, "no CUDA device"),
    ],
)
def test_impossible_settings_are_refused(model_dir, changes, reason):
    if changes.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match=reason):
        build_engine("llm", 1, settings(model_dir, **changes))


@pytest.mark.parametrize(
    ("kib", "major", "chosen"), [(227, 9, "triton"), (99, 8, "triton"), (64, 7, "torch")]
)
def test_auto_takes_the_kernel_on_gpus_with_enough_shared_memory(kib, major, chosen, monkeypatch):
    gpu = SimpleNamespace(shared_memory_per_block_optin=kib << 10, major=major)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr(choice, "find_spec", lambda name: object())
    assert attention_on("auto", torch.device("cuda"), torch.bfloat16) == chosen


@pytest.mark.parametrize(
    ("device", "share", "kv_bytes"),
    [
        ("cuda", 0.5, 20 << 30),
        ("cuda", 0.001, 1 << 30),
        ("cuda", 0.0, 1 << 30),
        ("cpu", 0.5, 1 << 30),
    ],
)
def test_kv_pages_take_their_share_of_an_accelerators_free_memory(
    model_dir, device, share, kv_bytes, monkeypatch
):
    memory = SimpleNamespace(mem_get_info=lambda device: (40 << 30, 80 << 30))
    monkeypatch.setattr(torch, "get_device_module", lambda device: memory)
    planned = settings(model_dir, kv_bytes=1 << 30, device_kv_share=share)
    assert _with_device_pages(planned, torch.device(device)).kv_bytes == kv_bytes


def test_an_accelerator_without_room_for_the_planned_kv_pages_is_refused(model_dir, monkeypatch):
    memory = SimpleNamespace(mem_get_info=lambda device: (1 << 30, 80 << 30))
    monkeypatch.setattr(torch, "get_device_module", lambda device: memory)
    planned = settings(model_dir, kv_bytes=2 << 30)
    with pytest.raises(ConfigError, match=r"take 2048 MiB of cuda.*1024 of its 81920 MiB are free"):
        _with_device_pages(planned, torch.device("cuda"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"dtype": "int8"}, "dtype"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"page_size": -1}, "page_size"),
        ({"threads": -1}, "threads"),
        ({"background_step_s": 0.0}, "background_step_s"),
        ({"device_kv_share": 1.0}, "device_kv_share"),
        ({"context_tokens_max": 0}, "context_tokens_max"),
    ],
)
def test_settings_name_the_field_that_is_wrong(model_dir, changes, field):
    with pytest.raises(ConfigError, match=field):
        settings(model_dir, **changes)


def test_a_broken_weights_file_is_a_clear_error(model_dir, tmp_path):
    for path in model_dir.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"not a safetensors file")
    with pytest.raises(ConfigError, match="can't be loaded"):
        build_engine("llm", 1, settings(tmp_path))


def test_missing_weights_are_not_made_up(model_dir, tmp_path):
    for path in model_dir.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks 1 weights, model\.layers\.1\.mlp\.up_proj"):
        build_engine("llm", 1, settings(tmp_path))


def test_settings_travel_to_another_process(model_dir):
    one = settings(model_dir)
    assert pickle.loads(pickle.dumps(one)) == one


def test_what_decides_reaches_no_torch():
    code = (
        "import sys, heddle.engines.llm.engine, heddle.engines.llm.build, "
        "heddle.engines.llm.scheduler, heddle.kv.rows, heddle.kv.prefix_index\n"
        "print([m for m in ('torch', 'transformers', 'tokenizers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
