"""What the driver's tool says of a GPU's memory, and what follows where it says nothing."""

from pathlib import Path

import pytest

from heddle.app.assembly.device_memory import DeviceMemory, read_device_memory


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what puts a script in the place of the driver's tool."""

    def put(script: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return put


def test_the_first_gpu_that_is_visible_is_asked_for(tool, monkeypatch):
    tool('case "$1" in --id=0) echo "81559, 80995";; --id=GPU-1b) echo "100, 7";; esac')
    assert read_device_memory() == DeviceMemory(81559 << 20, 80995 << 20)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1b,GPU-2c")
    assert read_device_memory() == DeviceMemory(100 << 20, 7 << 20)


@pytest.mark.parametrize("script", ["exit 9", "echo '[N/A], [N/A]'", "echo no devices"])
def test_a_tool_that_can_not_say_is_noted(tool, script, caplog):
    caplog.set_level("INFO", logger="heddle")
    tool(script)
    assert read_device_memory() is None
    assert "doesn't say how much memory the GPU has" in caplog.text
