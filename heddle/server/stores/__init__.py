"""Files and vector stores over HTTP, in the shape of OpenAI's API."""
