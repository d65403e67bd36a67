"""The route of the page; it is written once, when it is first asked for."""

from functools import cache
from typing import Final

from fastapi import FastAPI
from starlette.responses import HTMLResponse

from heddle.server.api_page.page import POLICY, api_page

PATH: Final = "/docs"


def add_api_page(app: FastAPI) -> None:
    """Add GET /docs; routes that are added later stand on the page, too."""

    @cache
    def page() -> str:
        return api_page(app.openapi())

    @app.get(PATH, include_in_schema=False)
    async def docs() -> HTMLResponse:
        """Return what the API takes and returns, as a page."""
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(page(), headers=headers)
