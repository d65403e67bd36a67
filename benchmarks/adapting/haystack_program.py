"""Asks a Haystack program, as its callers do."""

from importlib import import_module

from benchmarks.adapting.setting import UNKNOWN, Ask, Setting, Told

ASKED = ("imagine_prompt", "query", "answer_prompt", "rewrite_prompt", "rewritten")


def program(variant: str, setting: Setting) -> Ask:
    """Return what asks the program `before` or `after` the change."""
    app = import_module(f"benchmarks.adapting.haystack_{variant}").graph(setting)

    async def ask(question: str) -> Told:
        given = {name: {"question": question} for name in ASKED}
        found = await app.run_async({**given, "tries": {"value": 0}})
        receipts = getattr(app, "receipts", None)
        seen = tuple(receipts[-1].primitives_seen) if receipts else ()
        return Told(found["check"].get("found", UNKNOWN), seen)

    return ask
