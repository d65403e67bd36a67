"""`heddle docs DIR ls | add PATH... | rm ID... | sync [--watch]`"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from heddle.cli.arguments import corpus_place
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, server_config
from heddle.cli.index import EMBEDDING_FIELDS, delete_shown, index_shown, print_report
from heddle.core.errors import InputError
from heddle.core.printing.printable import printable_line
from heddle.corpus.indexing_plan import plan
from heddle.corpus.place import CorpusPlace
from heddle.corpus.store import CorpusStore

ACTIONS: Final = ("ls", "add", "rm", "sync")
INTERVAL_S: Final = 5.0
INTERVAL_S_MIN: Final = 1.0
FileState = tuple[int, int, int] | None  # bytes; times of content and of rights [ns]


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "corpus", type=corpus_place, metavar="DIR", help="corpus directory, or postgresql:// URL"
    )
    parser.add_argument(
        "action",
        choices=ACTIONS,
        metavar="|".join(ACTIONS),
        help="ls = list the documents; add = index files; rm = delete documents by id; "
        "sync = index anew what was indexed, and drop documents of lost files",
    )
    parser.add_argument(
        "names", nargs="*", metavar="PATH|ID", help="files to add, or ids of documents to delete"
    )
    parser.add_argument("--watch", action="store_true", help="sync again and again, until Ctrl-C")
    parser.add_argument(
        "--interval",
        type=float,
        default=INTERVAL_S,
        metavar="SECONDS",
        help=f"pause of --watch between two looks, at least {INTERVAL_S_MIN:g}; "
        "default: %(default)g",
    )
    parser.add_argument("--tenant", metavar="NAME", help="tenant whose documents ls or rm means")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    add_config(parser, only=EMBEDDING_FIELDS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do one of the four; exit code 1 when a file or a document was no use."""
    if options.action in ("ls", "sync") and options.names:
        raise InputError(f"{options.action} takes no names: leave {options.names[0]!r} out")
    if options.action in ("add", "rm") and not options.names:
        what = "files or directories" if options.action == "add" else "ids of documents"
        raise InputError(f"{options.action} needs {what}")
    if options.tenant is not None and options.action in ("add", "sync"):
        raise InputError(
            f"--tenant is for ls and rm, and {options.action} would read the files for everybody: "
            "lines of JSONL name their `tenant`, and a server takes a tenant's files (POST "
            "/v1/documents)"
        )
    if options.watch and options.action != "sync":
        raise InputError("--watch is for sync")
    if not options.interval >= INTERVAL_S_MIN:
        raise InputError(f"--interval must be at least {INTERVAL_S_MIN:g} seconds")
    match options.action:
        case "ls":
            return _list(options)
        case "add":
            return _index(options, [Path(name) for name in options.names])
        case "rm":
            return _remove(options)
        case _:
            return _watch(options) if options.watch else _sync(options)


def _list(options: argparse.Namespace) -> int:
    with CorpusStore.open(options.corpus) as store:
        listed = [
            one
            for one in store.documents.listed()
            if options.tenant is None or one.tenant == options.tenant
        ]
    if options.json:
        print(json.dumps([asdict(one) for one in listed], ensure_ascii=False, indent=1))
        return 0
    for one in listed:
        owner = f"  tenant {one.tenant}" if one.tenant else ""
        title = f"  {one.title}" if one.title not in (one.id, one.file) else ""
        print(printable_line(f"{one.id}  {one.chunks} chunks{title}{owner}"))
    print(f"{len(listed)} documents", file=sys.stderr)
    return 0


def _remove(options: argparse.Namespace) -> int:
    tenant = options.tenant or ""
    with CorpusStore.open(options.corpus) as store:
        files = {one.id: one.file for one in store.documents.listed() if one.tenant == tenant}
    code = delete_shown(options.corpus, options.names, tenant)
    for name in options.names:
        if files.get(name):
            line = f"{name}: sync brings it again when its file changes: {files[name]}"
            print(printable_line(line))
    return code


def _index(options: argparse.Namespace, paths: list[Path], *, is_sync: bool = False) -> int:
    config = server_config(options, only=EMBEDDING_FIELDS, index=options.corpus)
    # What was deleted stays so in a sync, also where its file was indexed by its own name.
    report = index_shown(paths, options.corpus, config, prune=is_sync, restores_deleted=not is_sync)
    return print_report(report, options.corpus)


def _sync(options: argparse.Namespace) -> int:
    with CorpusStore.open(options.corpus) as store:
        paths, lost = _sync_paths(store)
    for path in lost:
        state = "empty" if path.exists() else "gone"
        print(
            f"error: the directory {path} is {state}, and its documents are kept; "
            f"heddle index {path} --into {options.corpus} --prune deletes them",
            file=sys.stderr,
        )
    return (_index(options, paths, is_sync=True) if paths else 0) or (1 if lost else 0)


def _watch(options: argparse.Namespace) -> int:
    """Look for changes again and again; index when there are some.

    A file that could not be read is still to do at the next look: it is tried again when it
    changes, or when another file does.
    """
    print(f"watching the files of {options.corpus} (Ctrl-C stops)", file=sys.stderr)
    tried: Mapping[Path, FileState] = {}
    while True:
        to_read, is_stale = _look(options.corpus)
        if is_stale or any(tried.get(path) != state for path, state in to_read.items()):
            _sync(options)
        # Their states from before the reading: a file that changed meanwhile is tried again.
        tried = to_read
        _pause(options.interval)


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _look(corpus: CorpusPlace) -> tuple[dict[Path, FileState], bool]:
    """Return the new and changed files as they are now, and whether there is more to do."""
    with CorpusStore.open(corpus) as store:
        paths, _ = _sync_paths(store)
        todo = plan(paths, store, prune=True)
        to_read = {path: _state(path) for path in todo.added + todo.changed}
        return to_read, bool(todo.gone or store.stats().pending)


def _state(path: Path) -> FileState:
    """Return what changes with a file's content or rights; None = it can't be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _sync_paths(store: CorpusStore) -> tuple[list[Path], list[Path]]:
    """Return what to index again, and directories that are gone or empty, with documents of theirs.

    Those may be on a disk that isn't mounted. What is gone and has no documents left is in neither.
    A corpus of an earlier version names no paths: its files are looked at again, and no new ones
    are found.
    """
    files = set(store.runs.source_names()) - {""}
    roots = [Path(root) for root in store.runs.roots or sorted(files)]
    if not roots:
        raise InputError(f"no file brought the documents of {store.place}: sync has no source")
    lost = [root for root in roots if _is_lost(root, files)]
    known = [root for root in roots if root.exists() or str(root) in files]
    return [root for root in known if root not in lost], lost


def _is_lost(root: Path, files: Collection[str]) -> bool:
    """Whether documents came from files in a directory that is gone, or that has nothing in it."""
    below = os.path.join(root, "")
    return (not root.exists() or _is_empty(root)) and any(f.startswith(below) for f in files)


def _is_empty(path: Path) -> bool:
    """Whether a path is a directory that can be looked into, and nothing is there."""
    if not path.is_dir() or not os.access(path, os.R_OK):
        return False
    with os.scandir(path) as entries:
        return next(entries, None) is None
