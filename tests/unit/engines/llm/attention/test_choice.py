"""What computes the attention, and what is said where it can't."""

import logging

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.llm.attention import choice as attention_choice
from heddle.engines.llm.attention.choice import choose_attention


@pytest.fixture
def machine(monkeypatch):
    """Return a function that says whether triton is installed; nothing is interpreted."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    def install(is_there):
        monkeypatch.setattr(
            attention_choice, "find_spec", lambda name: object() if is_there else None
        )

    return install


@pytest.mark.parametrize(
    ("wanted", "on_gpu", "has_triton", "chosen"),
    [
        ("auto", True, True, "triton"),
        ("auto", True, False, "torch"),
        ("auto", False, True, "compiled"),
        ("torch", False, True, "torch"),
        ("compiled", False, False, "compiled"),
        ("torch", True, True, "torch"),
        ("triton", True, True, "triton"),
    ],
)
def test_auto_takes_the_kernel_where_it_can(machine, wanted, on_gpu, has_triton, chosen):
    machine(has_triton)
    assert choose_attention(wanted, on_gpu=on_gpu) == chosen


def test_a_gpu_without_triton_is_slower_and_says_so(machine, caplog):
    machine(False)
    with caplog.at_level(logging.INFO, logger="heddle"):
        choose_attention("auto", on_gpu=True)
    assert "pip install 'heddle[gpu]'" in caplog.text


def test_auto_takes_torch_on_a_gpu_that_the_kernel_does_not_fit_and_says_so(machine, caplog):
    machine(True)
    with caplog.at_level(logging.INFO, logger="heddle"):
        assert choose_attention("auto", on_gpu=True, gpu_problem="it is too small") == "torch"
    (record,) = caplog.records
    assert record.getMessage().endswith("slower: it is too small")


def test_the_kernel_is_refused_on_a_gpu_that_it_does_not_fit(machine):
    machine(True)
    with pytest.raises(ConfigError, match="it is too small; use auto or torch"):
        choose_attention("triton", on_gpu=True, gpu_problem="it is too small")


@pytest.mark.parametrize(
    ("wanted", "on_gpu", "has_triton", "reason"),
    [
        ("triton", True, False, "not installed"),
        ("triton", False, True, "needs an NVIDIA GPU"),
        ("compiled", True, True, "runs on a CPU"),
    ],
)
def test_a_kernel_that_cannot_run_is_refused(machine, wanted, on_gpu, has_triton, reason):
    machine(has_triton)
    with pytest.raises(ConfigError, match=reason):
        choose_attention(wanted, on_gpu=on_gpu)
