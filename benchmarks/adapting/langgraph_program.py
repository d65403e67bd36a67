"""Asks a LangGraph program, as its callers do."""

import uuid
from importlib import import_module

from benchmarks.adapting.setting import Ask, Setting, Told


def program(variant: str, setting: Setting) -> Ask:
    """Return what asks the program `before` or `after` the change."""
    app = import_module(f"benchmarks.adapting.langgraph_{variant}").graph(setting)

    async def ask(question: str) -> Told:
        thread = {"configurable": {"thread_id": uuid.uuid4().hex}}
        state = await app.ainvoke({"question": question}, thread)
        receipts = getattr(app, "receipts", None)
        seen = tuple(receipts[-1].primitives_seen) if receipts else ()
        return Told(state["answer"], seen)

    return ask
