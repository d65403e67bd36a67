"""infinity-emb, where it is not installed."""

import sys
from pathlib import Path

import pytest

from benchmarks.contenders.infinity_embedding import infinity_if_installed


def test_infinity_is_left_out_with_the_reason_where_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "infinity_emb", None)
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    encoder, note = infinity_if_installed(tmp_path, 2, 32)
    assert encoder is None
    assert note.startswith("left out, it can't be imported (")
