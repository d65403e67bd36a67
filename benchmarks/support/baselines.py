"""LangGraph, Haystack and LlamaIndex Workflows in an environment of their own."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from benchmarks.support.data import file_digest, made_from
from heddle.core.errors import StorageError

PINS = Path(__file__).with_name("baselines.txt")


def baselines_python() -> Path:
    """Return the interpreter that has the baselines, installed first where it is missing.

    Raises:
        StorageError: pip could not install them.
    """
    key = {"pins": file_digest(PINS), "python": sys.version}
    directory = made_from("baselines", key)
    python = directory / "bin" / "python"
    stamp = directory / "complete"
    if not stamp.is_file():
        print("installing the baselines (LangGraph, Haystack, LlamaIndex Workflows) ...")
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(PINS)]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StorageError(f"pip could not install {PINS.name}: {done.stderr[-500:]}")
        stamp.write_text("ok\n", encoding="utf-8")
    return python


def import_baselines() -> None:
    """Make the baselines importable here, behind what this environment has itself.

    Raises:
        StorageError: pip could not install them.
    Mutates: sys.path.
    """
    root = str(baselines_python().parents[1])
    packages = sysconfig.get_path("purelib", vars={"base": root})
    if packages not in sys.path:
        sys.path.append(packages)
