"""The one entry point: exit codes, and that every command is there."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

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


def test_what_the_system_refuses_is_told_without_a_traceback(
    capsys, monkeypatch: pytest.MonkeyPatch
):
    def fail(options: object) -> int:
        raise PermissionError(13, "Permission denied", "result.json")

    monkeypatch.setattr("heddle.cli.explain.run", fail)
    assert cli.main(["explain", "oneshot"]) == 1
    assert capsys.readouterr().err == "error: [Errno 13] Permission denied: 'result.json'\n"


def test_a_package_that_is_not_installed_is_named():
    script = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from heddle.cli.main import main; raise SystemExit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: Heddle needs the Python package 'jinja2'")


def test_a_missing_module_of_heddle_itself_is_a_bug(monkeypatch: pytest.MonkeyPatch):
    def fail(options: object) -> int:
        raise ModuleNotFoundError("no", name="heddle.nope")

    monkeypatch.setattr("heddle.cli.explain.run", fail)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["explain", "oneshot"])


@pytest.mark.parametrize("arguments", [[], ["nope"], ["ask"], ["index", "x"], ["serve", "--port"]])
def test_a_wrong_command_line(arguments: list[str], capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: heddle" in capsys.readouterr().err


def test_no_command_shows_them_all(capsys):
    with pytest.raises(SystemExit):
        cli.main([])
    said = capsys.readouterr().err
    assert all(name in said for name in cli.COMMANDS)


def test_an_unknown_option_is_told_with_the_usage_of_its_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["ask", "corpus", "What", "is", "this?"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert '[DIR] "question"' in said
    assert "unrecognized arguments: is this?" in said


def test_the_package_runs_as_the_command_does():
    given = [sys.executable, "-m", "heddle", "--version"]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    assert done.stdout == f"heddle {__version__}\n"


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


def explained(redirection: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `heddle explain multistep` in a shell that sends its output somewhere."""
    script = "from heddle.cli.main import main; raise SystemExit(main(['explain', 'multistep']))"
    command = f'"{sys.executable}" -c "{script}" {redirection}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("redirection", ["| true", ">&-"], ids=["a closed pipe", "no stdout"])
def test_a_reader_that_goes_away_is_no_error(redirection: str):
    done = explained(redirection)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_can_not_be_written_is_told():
    done = explained(">/dev/full")
    assert done.returncode == 1
    assert done.stderr == "error: [Errno 28] No space left on device\n"


def test_what_the_terminal_can_not_show_is_replaced(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from heddle import RAGraph\nflow = RAGraph('müde').add_retrieval('find')\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "heddle.cli.main", "explain", f"{file}:flow"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "workflow 'm?de': 1 region" in done.stdout


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
