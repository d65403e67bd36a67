"""Commands for a lane that takes none: they wait, up to a bound."""

import pytest

from heddle.core.commands import Cancel, LoadKv
from heddle.core.payloads import PrefillPayload
from heddle.hosts import outbox
from heddle.hosts.messages import ToEngine


def test_what_waits_is_bounded_and_cancels_always_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "BACKLOG_MAX", 2)
    waiting = outbox.Outbox("llm", lambda: None)
    load = ToEngine("llm", LoadKv(7, PrefillPayload(())))
    assert [waiting.put(load) for _ in range(2)] == ["", ""]
    assert "lane llm does not read: 2 commands wait" in waiting.put(load)
    assert waiting.put(ToEngine("llm", Cancel(1))) == ""
