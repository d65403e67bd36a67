"""Fetch the wheels that a machine with a GPU, but without a network, may lack.

    python -m tools.gpu_day.wheels [--python 3.12] FOLDER

There: python3 -m pip install --no-index --no-deps --target /tmp/site FOLDER/*.whl, and PYTHONPATH
begins with /tmp/site. torch, Triton, transformers and numpy are expected to be there already.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.gpu_day.results import ROOT

# By the packages that the parts need; those that images with torch mostly have are left out.
LACKING: Final = ("faiss-cpu", "greenlet")
GLIBC: Final = ("2_28", "2_27", "2_24", "2_17")  # pip takes no newer one as the older's equal


def pinned(names: Sequence[str], constraints: str) -> list[str]:
    """Return the packages at the versions that CI installs."""
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, re.MULTILINE))
    return [f"{name}=={pins[name]}" if name in pins else name for name in names]


def command(python: str, folder: Path, packages: Sequence[str]) -> list[str]:
    """Return pip's arguments that fetch wheels for another Python on x86-64."""
    platforms = [f"manylinux_{glibc}_x86_64" for glibc in GLIBC] + ["manylinux2014_x86_64"]
    chosen = [word for platform in platforms for word in ("--platform", platform)]
    form = ("--no-deps", "--only-binary=:all:", "--implementation", "cp")
    return ["-m", "pip", "download", "-q", *form, "--python-version", python, *chosen, "-d",
            str(folder), *packages]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch them and tell their size; pip's exit code where it fails."""
    parser = argparse.ArgumentParser("python -m tools.gpu_day.wheels", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", metavar="VERSION", help="that machine's")
    options = parser.parse_args(arguments)
    packages = pinned(LACKING, (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, *command(options.python, options.folder, packages)], check=False
    )
    if done.returncode:
        return done.returncode
    wheels = sorted(options.folder.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels)
    print(f"{len(wheels)} wheels, {size / 2**20:.1f} MiB: {', '.join(w.name for w in wheels)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
