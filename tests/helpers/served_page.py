"""A server's page in a headless browser, which notes what goes wrong in it."""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from tests.helpers.page_sources import WEB

CHROMIUM: Final = os.environ.get("HEDDLE_CHROMIUM") or shutil.which("chromium") or ""
AXE: Final = WEB / "node_modules/axe-core/axe.min.js"
MISSING: Final = "no Chromium is here, or no Node package axe-core: make setup-browser"
WIDTH, HEIGHT = 1000, 800


def has_browser() -> bool:
    """Whether there is a browser to test with, and what checks accessibility."""
    return bool(CHROMIUM) and AXE.is_file()


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an application on a port of this machine; its address is the value."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)  # from here on a browser's connection waits, and isn't refused
        config = uvicorn.Config(app, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def browser() -> Iterator[Any]:
    """Start a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield running
        finally:
            running.close()


@dataclass(slots=True)
class Visit:
    """A page of the browser, its requests and its complaints.

    Args:
        page: Playwright's.
        url: the server's address.
        requests: the address of each request.
        problems: errors of scripts and of the console, breaches of the policy among them.
    """

    page: Any
    url: str
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def open(self, view: str) -> None:
        """Show a view, and wait for its title."""
        self.page.goto(f"{self.url}/#{view}")
        self.page.locator(f"#view-{view} h1").wait_for()

    def foreign(self) -> list[str]:
        """Return the requests that went elsewhere."""
        return [url for url in self.requests if not url.startswith(f"{self.url}/")]

    def paths(self) -> list[str]:
        """Return the paths of the requests, without their queries."""
        return [url.removeprefix(self.url).partition("?")[0] for url in self.requests]


@contextmanager
def visit(running: Any, url: str, **how: Any) -> Iterator[Visit]:
    """Open a browser's context of its own, with Playwright's options `how`."""
    options = {"viewport": {"width": WIDTH, "height": HEIGHT}, **how}
    context = running.new_context(**options)
    found = Visit(context.new_page(), url)
    context.on("request", lambda request: found.requests.append(request.url))
    context.on("weberror", lambda error: found.problems.append(str(error.error)))
    context.on(
        "console",
        lambda line: found.problems.append(line.text) if line.type == "error" else None,
    )
    try:
        yield found
    finally:
        context.close()


def violations(page: Any, axe: Path = AXE) -> list[str]:
    """Return what axe finds wrong with a page, a line for each rule and element."""
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['html'][:120]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
