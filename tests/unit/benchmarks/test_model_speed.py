"""model-speed: a tiny model's tokens are counted and timed beside transformers'."""

from pathlib import Path

import pytest

from benchmarks import model_speed
from benchmarks.support import llama_cpp
from heddle.core.errors import InputError


def held(options: tuple[str, ...]) -> list[dict[str, object]]:
    """Return what a slow run beside would: the options say that it is one in float32."""
    assert options[2:] == ("--dtype", "float32")
    slow = {"tokens_per_s": 1, "x": -1e9, "against": "transformers", "held": "avx2"}
    return [{"part": "decode", "name": f"decode{n}", "sequences": n, **slow} for n in (1, 16)]


def test_prefill_and_decode_of_one_and_of_many_are_timed(
    tiny_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_speed, "PROMPT_QUICK", 40)
    monkeypatch.setattr(model_speed, "SHORT_PROMPT", 8)
    monkeypatch.setattr(model_speed, "ANSWER", 4)
    monkeypatch.setattr(model_speed, "held_rows", lambda *_, **given: held(given["options"]))
    found = model_speed.run(quick=True, seed=0, model=str(tiny_directory))
    rows = found["rows"]
    assert isinstance(rows, list)
    assert [(r["part"], r["sequences"], r["tokens"]) for r in rows if not r["held"]] == [
        ("prefill", 1, 40),
        ("decode", 1, 4),
        ("decode", 16, 64),
    ]
    # Decoding's time is a difference of two for transformers: below zero beside other work.
    assert all(r["tokens_per_s"] > 0 and r["their_tokens_per_s"] for r in rows[:3])
    headline = found["headline"]
    assert headline["worst_transformers_decode1"] == -1e9
    assert headline["worst_transformers_prefill"] == headline["x_transformers_prefill"]


def test_what_it_cannot_be_compared_with_is_refused(
    tiny_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"'ollama'; name some of transformers, llama\.cpp"):
        model_speed.run(quick=True, seed=0, model=str(tiny_directory), against="ollama")
    with (
        pytest.raises(InputError, match="takes --model smollm2, which has a GGUF file"),
        llama_cpp.llama_cpp(str(tiny_directory), 1),
    ):
        pass
    monkeypatch.setattr(llama_cpp, "PACKAGE", "no_such_package")
    with (
        pytest.raises(InputError, match=r"needs the package llama-cpp-python: .*pip install"),
        llama_cpp.llama_cpp("smollm2", 1),
    ):
        pass
