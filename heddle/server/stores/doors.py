"""All routes of files and vector stores, for the HTTP application."""

from fastapi import FastAPI

from heddle.server.stores.attached_doors import add_attached_doors, add_batch_doors
from heddle.server.stores.desk import Desk
from heddle.server.stores.file_doors import add_file_doors
from heddle.server.stores.search_door import add_search_door
from heddle.server.stores.store_doors import add_store_doors


def add_stores(app: FastAPI, desk: Desk) -> None:
    """Add the routes to an application."""
    for add in (
        add_file_doors,
        add_store_doors,
        add_attached_doors,
        add_batch_doors,
        add_search_door,
    ):
        add(app, desk)
