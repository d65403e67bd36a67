"""Build the wheels, check them, and ask one question of a fresh install: `python -m tools.dist`.

The wheels of Heddle and of its reader are built into dist/. Each is checked: its metadata, its
top-level names, and that no data file was left behind. Then both are installed into an empty
environment, two small files are indexed there, and one question must find its passage and its
answer. Prints how long each step took; exit code 1 names what is wrong. Needs a package index.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata

ROOT: Final = Path(__file__).resolve().parent.parent
TORCH: Final = "torch==2.13.0"
CLASSIFIERS_NEEDED: Final = ("Development Status", "Programming Language", "Topic", "Typing")
NOTES: Final = {
    "mill.txt": "Oak Mill\n\nOak Mill was founded by Ann Reed in 1823. It stands on Hill Street.\n",
    "library.txt": "The Harbour Library\n\nThe Harbour Library was opened by Tom Wells in 1901.\n",
}
QUESTION: Final = "Who founded Oak Mill?"
ANSWER, PASSAGE = "Ann Reed", "mill: Oak Mill"


class DistError(Exception):
    """A wheel or an install that is not as it should be; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution of this repository: its folder, and the one name that it may install."""

    folder: Path
    module: str


def packages() -> Iterator[Package]:
    """Yield Heddle and the packages of its models, but for those whose model isn't trained yet."""
    yield Package(ROOT, "heddle")
    for project in sorted((ROOT / "models").glob("*/pyproject.toml")):
        tools = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]
        (module,) = tools["setuptools"]["packages"]
        if any((project.parent / module / "model").glob("*")):
            yield Package(project.parent, module)


def build(package: Package, into: Path) -> Path:
    """Build a package's wheel and return it.

    Mutates: removes what an earlier build left in the folder, whose files would be packed, too.
    """
    shutil.rmtree(package.folder / "build", ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        run(sys.executable, *PIP, "wheel", "--no-deps", "-w", temporary, str(package.folder))
        (built,) = Path(temporary).glob("*.whl")
        shutil.rmtree(package.folder / "build", ignore_errors=True)
        return Path(shutil.copy(built, into))


def problems(wheel: Path, package: Package) -> Iterator[str]:
    """Yield what is wrong with a wheel: metadata, top-level names, missing or foreign files."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        yield from metadata_problems(archive.read(about))
    packed = {name for name in names if ".dist-info/" not in name}
    top_level = {name.partition("/")[0] for name in packed}
    if top_level != {package.module}:
        yield f"installs {sorted(top_level)}, not {package.module} only"
    there = set(source_files(package))
    if there - packed:
        yield f"lacks {sorted(there - packed)}"
    if packed - there:
        yield f"has files that the source has not: {sorted(packed - there)}"


def metadata_problems(text: bytes) -> Iterator[str]:
    """Yield what is wrong with a wheel's METADATA file, or missing from it."""
    about = Metadata.from_email(text)  # raises where a field breaks the standard
    if not (about.author or about.author_email):
        yield "metadata has no author"
    if not about.project_urls:
        yield "metadata has no URL"
    if not about.keywords:
        yield "metadata has no keywords"
    if not (about.description or "").strip() or about.description_content_type != "text/markdown":
        yield "metadata has no readme in Markdown"
    if not (about.license_expression and about.license_files):
        yield "metadata has no license"
    first_words = {name.partition(" ::")[0] for name in about.classifiers or ()}
    for needed in CLASSIFIERS_NEEDED:
        if needed not in first_words:
            yield f"metadata has no classifier {needed!r}"


def source_files(package: Package) -> Iterator[str]:
    """Yield the files of a package as a wheel names them."""
    for path in (package.folder / package.module).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(package.folder).as_posix()


def install(wheels: list[Path], environment: Path, torch: str) -> Path:
    """Install wheels into a fresh environment and return the folder of its programs.

    torch comes first and pinned: asked for by another package, pip would take a build with
    gigabytes of CUDA libraries.
    """
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    run(python, *PIP, "install", torch)
    pins = str(ROOT / "constraints.txt")
    run(python, *PIP, "install", "-c", pins, *(str(wheel) for wheel in wheels))
    return environment / "bin"


def ask(programs: Path, folder: Path) -> None:
    """Index two files with the installed program and ask one question.

    Raises:
        DistError: the answer or its passage is not there, or a benchmark is.
    """
    notes = folder / "notes"
    notes.mkdir()
    for name, text in NOTES.items():
        (notes / name).write_text(text, encoding="utf-8")
    heddle = str(programs / "heddle")
    run(heddle, "index", "notes", "--into", "corpus", folder=folder)
    said = run(heddle, "ask", "corpus", QUESTION, folder=folder)
    for wanted in (ANSWER, PASSAGE):
        if wanted not in said:
            raise DistError(f"{QUESTION!r} was answered without {wanted!r}:\n{said}")
    benched = call(heddle, "bench", "list", folder=folder)
    if benched.returncode != 2 or "in a checkout" not in benched.stderr:
        raise DistError(f"`heddle bench` outside a checkout said: {benched.stderr}")


PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def run(*command: str, folder: Path = ROOT) -> str:
    """Run a command and return its output.

    Raises:
        DistError: it failed; the message has the end of its output.
    """
    done = call(*command, folder=folder)
    if done.returncode:
        raise DistError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def call(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without this process's Python path and cache."""
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    environment["HEDDLE_CACHE"] = str(folder / ".cache")
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block took."""
    begun_s = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begun_s:.0f} s", flush=True)


def main() -> int:
    """Build, check, install and ask; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AS_WRITTEN)
    parser.add_argument("--torch", default=TORCH, help=f"what is installed first; default: {TORCH}")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="where the wheels go")
    options = parser.parse_args()
    shutil.rmtree(options.into, ignore_errors=True)
    options.into.mkdir(parents=True)
    try:
        with timed("wheels built and checked"):
            wheels = []
            for package in packages():
                wheels.append(wheel := build(package, options.into))
                if found := list(problems(wheel, package)):
                    raise DistError(f"{wheel.name}: {'; '.join(found)}")
        with tempfile.TemporaryDirectory() as temporary:
            with timed("installed into an empty environment"):
                programs = install(wheels, Path(temporary) / "environment", options.torch)
            with timed("indexed two files and asked"):
                ask(programs, Path(temporary))
    except DistError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
    return 0


_AS_WRITTEN: Final = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    sys.exit(main())
