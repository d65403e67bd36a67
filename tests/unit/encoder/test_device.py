"""What dtype an encoder computes in."""

import pytest
import torch

from heddle.encoder.device import torch_dtype


@pytest.mark.parametrize(("emulates", "dtype"), [(True, torch.float32), (False, torch.bfloat16)])
def test_a_gpu_that_emulates_bfloat16_computes_in_float32(
    monkeypatch: pytest.MonkeyPatch, emulates: bool, dtype: torch.dtype
) -> None:
    def is_supported(*, including_emulation: bool = True) -> bool:
        return including_emulation or not emulates

    monkeypatch.delenv("HEDDLE_AUTO_DTYPE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert torch_dtype("auto", torch.device("cuda")) is dtype
