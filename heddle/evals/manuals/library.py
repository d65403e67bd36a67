"""Which pages the manuals have, and how they are made.

Python's own part is the same for every installation of one minor version. What is not installed
has no page, and the questions about it are skipped.
"""

import importlib.metadata
import inspect
from collections.abc import Iterator
from typing import Final

from heddle.evals.manuals.help_page import help_page
from heddle.evals.manuals.page import ManualPage, without_addresses
from heddle.evals.manuals.reference_page import reference_page

MODULES: Final = (
    "argparse", "ast", "asyncio", "base64", "bisect", "builtins", "bz2", "calendar", "codecs",
    "collections", "concurrent.futures", "configparser", "contextlib", "copy", "csv", "ctypes",
    "dataclasses", "datetime", "decimal", "difflib", "dis", "doctest", "email.message", "enum",
    "fileinput", "filecmp", "fnmatch", "fractions", "ftplib", "functools", "gc", "getpass",
    "gettext", "glob", "graphlib", "gzip", "hashlib", "heapq", "hmac", "html", "http.client",
    "http.cookiejar", "http.server", "imaplib", "inspect", "io", "ipaddress", "itertools", "json",
    "linecache", "locale", "logging", "logging.config", "logging.handlers", "lzma", "mailbox",
    "math", "mimetypes", "mmap", "multiprocessing.pool", "os", "pathlib", "pdb", "pickle",
    "pickletools", "platform", "plistlib", "poplib", "pprint", "profile", "pstats", "queue",
    "random", "re", "sched", "secrets", "selectors", "shelve", "shlex", "shutil", "signal",
    "smtplib", "socket", "socketserver", "sqlite3", "ssl", "stat", "statistics", "string",
    "struct", "subprocess", "sys", "tarfile", "tempfile", "textwrap", "threading", "time",
    "timeit", "tokenize", "tomllib", "trace", "traceback", "tracemalloc", "types", "typing",
    "unicodedata", "unittest.mock", "urllib.parse", "urllib.request", "uuid", "venv", "warnings",
    "wave", "weakref", "webbrowser", "xml.etree.ElementTree", "zipapp", "zipfile", "zipimport",
    "zlib", "zoneinfo",
)  # fmt: skip
PACKAGE_MODULES: Final = (
    "jinja2.environment", "markdown_it", "markupsafe", "numpy.lib.format", "numpy.linalg",
    "packaging.version", "psutil", "regex", "rich.console", "rich.progress", "rich.table",
    "safetensors", "tqdm",
)  # fmt: skip
COMMANDS: Final = (
    ("--help",),
    ("--help-env",),
    ("--help-xoptions",),
    ("-m", "ast", "--help"),
    ("-m", "calendar", "--help"),
    ("-m", "compileall", "--help"),
    ("-m", "cProfile", "--help"),
    ("-m", "doctest", "--help"),
    ("-m", "gzip", "--help"),
    ("-m", "http.server", "--help"),
    ("-m", "json.tool", "--help"),
    ("-m", "pickletools", "--help"),
    ("-m", "pip", "--help"),
    ("-m", "pip", "download", "--help"),
    ("-m", "pip", "freeze", "--help"),
    ("-m", "pip", "install", "--help"),
    ("-m", "pip", "list", "--help"),
    ("-m", "pip", "wheel", "--help"),
    ("-m", "py_compile", "--help"),
    ("-m", "tarfile", "--help"),
    ("-m", "timeit", "--help"),
    ("-m", "tokenize", "--help"),
    ("-m", "trace", "--help"),
    ("-m", "unittest", "--help"),
    ("-m", "venv", "--help"),
    ("-m", "zipapp", "--help"),
    ("-m", "zipfile", "--help"),
)
READMES: Final = (
    "filelock", "huggingface_hub", "numpy", "psutil", "regex", "rich", "safetensors", "tokenizers",
    "torch", "tqdm", "transformers", "typer",
)  # fmt: skip


def manual_pages() -> tuple[ManualPage, ...]:
    """Make every page that the running Python has; takes a few CPU seconds, most for commands.

    Mutates: imports the modules that it renders.
    """
    made = [reference_page(name) for name in (*MODULES, *PACKAGE_MODULES)]
    made += [help_page(words) for words in COMMANDS]
    made += [readme_page(name) for name in READMES]
    return tuple([*_language_pages(), *(page for page in made if page is not None)])


def _language_pages() -> Iterator[ManualPage]:
    """Yield the language reference that `help("topic")` shows, a page a topic."""
    try:
        from pydoc_data.topics import topics
    except ImportError:  # a Python without its documentation
        return
    for name, text in sorted(topics.items()):
        yield ManualPage(f"language-{name}.txt", inspect.cleandoc(text) + "\n")


def readme_page(name: str) -> ManualPage | None:
    """Return the description that an installed distribution carries; None where there is none."""
    try:
        about = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    text = str(about.json.get("description", "")).strip()
    return ManualPage(f"readme-{name}.md", without_addresses(text) + "\n") if text else None
