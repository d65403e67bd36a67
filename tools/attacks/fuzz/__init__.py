"""Bad and good input for every route of running servers: `python -m tools.attacks.fuzz`.

Three sources send at the same time: cases that schemathesis makes from /openapi.json, raw bytes
that hypothesis draws, and requests that must be accepted. No reply may be an error of the server's
own, and no process may end.
"""
