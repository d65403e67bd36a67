"""When a server reranks the passages of `oneshot`, and how it says so."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from heddle.app.assembly.readers import plan_readers
from heddle.app.assembly.reranking_choice import RerankingChoice, choose_reranking
from heddle.app.models.model_files import ModelFiles, layer_parameters
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError
from heddle.hosts.machine import MachineFacts

TWO_CORES = MachineFacts((0, 1), float("inf"), "Test", frozenset(), 8 << 30, 8 << 30, ())


def llm(folder: Path, width: int) -> ModelFiles:
    """A model of one square matrix, and a vocabulary that doesn't count."""
    folder.mkdir()
    tensors = {
        "model.embed_tokens.weight": np.zeros((9, width), np.float16),
        "model.layers.0.mlp.up_proj.weight": np.zeros((width, width), np.float16),
        "model.layers.0.norm.weight": np.zeros(width, np.float16),
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({}))
    return ModelFiles(folder, 1, "llm")


def chosen(
    generator: ModelFiles | None, *, llm_on_cpu: bool = True, **settings: object
) -> RerankingChoice:
    config = ServerConfig.of("reader", "corpus", settings)
    return choose_reranking(config, generator, plan_readers(config), 1, 1, llm_on_cpu=llm_on_cpu)


def test_only_matrices_of_layers_count(tmp_path: Path):
    assert layer_parameters(llm(tmp_path / "llm", 8).directory) == 64


def test_a_damaged_file_is_named(tmp_path: Path):
    broken = llm(tmp_path / "llm", 8)
    (broken.directory / "model.safetensors").write_bytes(bytes(64))
    with pytest.raises(InputError, match=r"model.safetensors can't be read: .*fetch the model"):
        layer_parameters(broken.directory)


def test_it_depends_on_the_size_of_the_llm(tmp_path: Path):
    large = chosen(llm(tmp_path / "large", 9_000))
    assert large.is_on
    assert large.line() == (
        "oneshot reads 10 passages and keeps 3: reading takes less time than the longer prompt "
        "(11 million weights on 1 thread, 81 million weights on 1 thread)"
    )
    small = chosen(llm(tmp_path / "small", 100))
    assert not small.is_on
    assert "keeps its passages as they are found: reading takes no less time" in small.line()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rerank": "never"}, "rerank is never"),
        ({"speculate": "always"}, "computed while their search still runs"),
        ({"reranker": None}, "no model on the LLM's own processor ranks"),
        ({"llm_on_cpu": False}, "no model on the LLM's own processor ranks"),
    ],
)
def test_what_keeps_it_away(tmp_path: Path, settings: dict, words: str):
    choice = chosen(llm(tmp_path / "llm", 9_000), **settings)
    assert not choice.is_on
    assert words in choice.why


def test_always_needs_a_model_that_ranks(tmp_path: Path):
    small = llm(tmp_path / "llm", 8)
    assert chosen(small, rerank="always").is_on
    with pytest.raises(ConfigError, match="no model ranks: name one, such as --reranker extract"):
        chosen(small, rerank="always", reranker=None)


def test_a_model_that_another_server_runs_can_not_be_compared():
    assert not chosen(None).is_on
