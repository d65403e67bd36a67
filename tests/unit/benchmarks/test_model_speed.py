"""model-speed: a tiny model's tokens are counted and timed beside transformers'."""

from pathlib import Path

import pytest

from benchmarks import model_speed


def held(options: tuple[str, ...]) -> list[dict[str, object]]:
    """Return what a slow run beside would: the options say that it is one in float32."""
    assert options[2:] == ("--dtype", "float32")
    slow = {"tokens_per_s": 1, "x_transformers": -1e9, "held": "avx2"}
    return [{"part": "decode", "sequences": n, "tokens": 4, **slow} for n in (1, 16)]


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
    assert all(r["tokens_per_s"] > 0 and r["transformers_tokens_per_s"] for r in rows[:3])
    headline = found["headline"]
    assert headline["worst_decode_1"] == headline["worst_decode_16"] == -1e9
    assert headline["worst_prefill"] == headline["x_prefill"] == rows[0]["x_transformers"]
