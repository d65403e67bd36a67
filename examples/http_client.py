"""Ask and embed over HTTP, with Python's standard library only: `http_client.py URL`.

Start the server first: `heddle serve CORPUS`. If it asks for a key, set HEDDLE_API_KEY to one.
"""

import json
import os
import sys
import urllib.request
from typing import Any


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a JSON object and return the JSON object that comes back."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("HEDDLE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def main(url: str) -> None:
    """Print an answer with its passages, then how similar two of three texts are."""
    found = post(f"{url}/v1/ask", {"question": "Who started the Sawle Ferry?", "deadline_s": 30})
    print(found["answer"], "-", found["passages"][0]["title"])

    texts = ["a mill grinds oats", "oats are ground in a mill", "a ferry at high water"]
    rows = post(f"{url}/v1/embeddings", {"input": texts})["data"]
    first, same, other = (row["embedding"] for row in rows)
    near, far = (sum(a * b for a, b in zip(first, vector, strict=True)) for vector in (same, other))
    print(f"similarity: {near:.2f} and {far:.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
