"""A fixture for tests of LlamaIndex, whose plain calls make an event loop and leave it open."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def llama_loop() -> Iterator[None]:
    """Give the test's thread a loop, and close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
