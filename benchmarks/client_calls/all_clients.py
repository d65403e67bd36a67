"""Every client whose calls are made."""

import os
from typing import Final

from benchmarks.client_calls import (
    cohere_calls,
    haystack_calls,
    httpx_calls,
    langchain_calls,
    litellm_calls,
    llama_index_calls,
    open_webui_calls,
    openai_calls,
    smolagents_calls,
)
from benchmarks.client_calls.call import Client

# Open WebUI has no client of its own: its calls are made by httpx, and declared when imported.
assert open_webui_calls.CLIENT is httpx_calls.CLIENT

# They would call their makers, which takes time where there is no network.
for variable, value in (
    ("HAYSTACK_TELEMETRY_ENABLED", "False"),
    ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    ("LANGSMITH_TRACING", "false"),
):
    os.environ.setdefault(variable, value)

ALL_CLIENTS: Final[tuple[Client, ...]] = (
    openai_calls.CLIENT,
    langchain_calls.CLIENT,
    llama_index_calls.CLIENT,
    haystack_calls.CLIENT,
    litellm_calls.CLIENT,
    smolagents_calls.CLIENT,
    cohere_calls.CLIENT,
    httpx_calls.CLIENT,
)
