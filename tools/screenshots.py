"""Take the pictures of docs/guide/page.md: `python -m tools.screenshots`.

The demo's archive of a town is indexed into a temporary folder and served in this process. A
headless Chromium asks a question and takes a picture of each view into docs/images.
Needs `make setup-browser`.
"""

import argparse
import contextlib
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heddle.app.server import Server
from heddle.demo.corpus import demo_documents
from heddle.server.http import create_app
from heddle.workflow.ready_made import ready_made
from tests.helpers.served_page import MISSING, browser, has_browser, served, visit
from tests.helpers.tiny_server import index_documents

if TYPE_CHECKING:  # only where the pictures are taken is it installed
    from playwright.sync_api import Browser

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs/images"
QUESTION: Final = "In which village was Theodosia Shufflebottom born?"
WORKFLOWS: Final = ("quote", "oneshot", "hyde", "multistep", "irg")
VIEWS: Final = ("ask", "timeline", "workflow", "live", "documents")
HEIGHT: Final = 1000


def main() -> int:
    """Take the pictures; exit code 1 where there is no browser."""
    parser = argparse.ArgumentParser(description="Take the pictures of docs/guide/page.md.")
    parser.add_argument("--into", type=Path, default=IMAGES, help="folder; default: docs/images")
    parser.add_argument("--question", default=QUESTION, help=f"default: {QUESTION}")
    options = parser.parse_args()
    if not has_browser():
        print(f"error: {MISSING}", file=sys.stderr)
        return 1
    logging.disable(logging.WARNING)
    into = options.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    # Sources are shown as they were given: no picture shows a folder of this machine.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        corpus = index_documents([_archive()], Path("corpus"))
        workflows = {name: ready_made(name).compile() for name in WORKFLOWS}
        with (
            Server(index=corpus, engine_host="inline") as server,
            served(create_app(server, workflows, takes_changes=True)) as url,
            browser() as chromium,
        ):
            _take(chromium, url, options.question, into)
    return 0


def _archive() -> Path:
    """Write the demo's documents as JSONL into this folder, and return the file."""
    rows = (
        {"id": document.id, "title": document.title, "text": document.text}
        for document in demo_documents()
    )
    file = Path("town.jsonl")
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return file


def _take(chromium: "Browser", url: str, question: str, into: Path) -> None:
    for scheme in ("light", "dark"):
        how = {"color_scheme": scheme, "viewport": {"width": 900, "height": HEIGHT}}
        with visit(chromium, url, **how) as found:
            page = found.page
            found.open("ask")
            page.locator("option[value=quote]").first.wait_for(state="attached")
            page.get_by_label("Workflow").first.select_option("quote")
            page.get_by_label("Question").fill(question)
            page.keyboard.press("Enter")
            page.get_by_text("Answered in").wait_for()
            for view in VIEWS if scheme == "light" else VIEWS[:1]:
                page.locator(f"nav a[href='#{view}']").click()
                page.wait_for_load_state("networkidle")
                page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
                suffix = "" if scheme == "light" else f"-{scheme}"
                page.screenshot(path=into / f"page-{view}{suffix}.png")
                print(into / f"page-{view}{suffix}.png")


if __name__ == "__main__":
    sys.exit(main())
