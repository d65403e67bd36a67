"""The one entry point: exit codes, and that every command is there."""

import importlib
import subprocess
import sys

import pytest

from heddle import __version__
from heddle.cli import main as cli
from heddle.core.errors import (
    Busy,
    ConfigError,
    EngineError,
    InputError,
    InternalError,
    StorageError,
    WorkflowError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), 2),
        (ConfigError("x"), 2),
        (WorkflowError("x"), 2),
        (StorageError("x"), 1),
        (Busy("x", wait_s=1), 1),
        (EngineError("x", engine="e", request_ids=(1,)), 1),
        (InternalError("x"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_its_exit_code_and_no_traceback(
    error: Exception, code: int, capsys, monkeypatch: pytest.MonkeyPatch
):
    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr("heddle.cli.explain.run", fail)
    assert cli.main(["explain", "oneshot"]) == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_ctrl_c(capsys, monkeypatch: pytest.MonkeyPatch):
    def interrupt(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("heddle.cli.explain.run", interrupt)
    assert cli.main(["explain", "oneshot"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_ctrl_c_while_a_command_is_imported(capsys, monkeypatch: pytest.MonkeyPatch):
    def interrupt(name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupt)
    assert cli.main(["explain", "oneshot"]) == 130


@pytest.mark.parametrize("arguments", [[], ["nope"], ["ask"], ["index", "x"], ["serve", "--port"]])
def test_a_wrong_command_line(arguments: list[str], capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: heddle" in capsys.readouterr().err


def test_the_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"heddle {__version__}\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_its_help(name: str, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert "--verbose" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error():
    script = "from heddle.cli.main import main; raise SystemExit(main(['explain', 'multistep']))"
    command = f'"{sys.executable}" -c "{script}" | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_command_needs_torch_to_be_declared():
    script = (
        "import importlib, sys\n"
        "from heddle.cli.main import COMMANDS\n"
        "for module, _ in COMMANDS.values(): importlib.import_module(module)\n"
        "print([n for n in ('torch', 'faiss', 'transformers', 'fastapi') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
