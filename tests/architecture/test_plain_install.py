"""What `pip install heddle` gives works without the packages of its extras."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKED = (
    *("fastapi", "starlette", "uvicorn", "pydantic", "mcp", "opentelemetry", "llguidance"),
    *("haystack", "llama_index"),
)
COMMANDS = ("ask", "chat", "docs", "doctor", "index", "search")
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocked())
import {module}
"""


def imported_without_extras(module: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(blocked=BLOCKED, module=module)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_no_package_of_an_extra(command: str) -> None:
    done = imported_without_extras(f"heddle.cli.{command}")
    assert done.returncode == 0, done.stderr


def test_a_package_that_is_blocked_would_be_seen() -> None:
    assert imported_without_extras("heddle.server.http").returncode == 1


def test_what_is_blocked_comes_with_extras_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = " ".join(project["dependencies"])
    assert not [name for name in BLOCKED if name in required]
