"""The files of the page, built by Vite from web/, as replies.

A browser may keep each file, and asks every time whether it has changed: their names stay the same
from version to version.
"""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import Response

SITE: Final = files("heddle.server.page") / "site"
# The page's paths, each with its file and media type. All are in OPEN of keys/key_gate.py: a page
# holds no secret, and asks for the key itself.
PATHS: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/assets/page.js": ("assets/page.js", "text/javascript; charset=utf-8"),
    "/assets/page.css": ("assets/page.css", "text/css; charset=utf-8"),
    "/assets/icon.svg": ("assets/icon.svg", "image/svg+xml"),
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page: its bytes, their media type, and a tag that changes with them."""

    body: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, name: str, media_type: str) -> "PageFile":
        """Read a file of the package by its name in site/."""
        body = SITE.joinpath(name).read_bytes()
        return cls(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')

    def reply(self, request: Request) -> Response:
        """Return the file, or 304 to a browser that has it already."""
        headers = {**HEADERS, "ETag": self.tag, "Content-Type": self.media_type}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers)


def add_files(app: FastAPI) -> None:
    """Add a route for each file: no other path leads into the package."""
    for path, (name, media_type) in PATHS.items():
        file = PageFile.read(name, media_type)
        app.add_api_route(path, file.reply, response_model=None, include_in_schema=False)
