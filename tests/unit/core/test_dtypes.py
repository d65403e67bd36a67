import pytest

from heddle.core.dtypes import DTYPES, VARIABLE, auto_dtype
from heddle.core.errors import ConfigError


def test_auto_is_what_the_device_computes_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert auto_dtype(has_fast_bfloat16=True) == "bfloat16"
    assert auto_dtype(has_fast_bfloat16=False) == "float32"


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("is_fast", [True, False])
def test_the_environment_overrides(
    monkeypatch: pytest.MonkeyPatch, dtype: str, is_fast: bool
) -> None:
    monkeypatch.setenv(VARIABLE, dtype)
    assert auto_dtype(has_fast_bfloat16=is_fast) == dtype


def test_an_unknown_dtype_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "float17")
    with pytest.raises(ConfigError, match=r"HEDDLE_AUTO_DTYPE.*float32, bfloat16.*float17"):
        auto_dtype(has_fast_bfloat16=True)
