"""Small values of core that others rely on."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.core.credits import Credits
from heddle.core.errors import Busy, ConfigError, EngineError, HeddleError, InternalError
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import EmbedPayload, PrefillPayload, SearchPayload, Segment, split_rows


def test_credits_are_bounded_both_ways() -> None:
    held = Credits(3)
    held.take(2)
    assert held.free == 1
    with pytest.raises(InternalError):
        held.take(2)
    held.give_back(2)
    with pytest.raises(InternalError):
        held.give_back(1)


def test_rows_can_be_split_where_they_are_independent() -> None:
    texts = EmbedPayload(("a", "b", "c"))
    assert split_rows(texts, 1, 3) == EmbedPayload(("b", "c"))
    queries = SearchPayload(np.eye(3, dtype=np.float32), topk=2)
    part = split_rows(queries, 0, 1)
    assert isinstance(part, SearchPayload)
    assert part.rows == 1
    assert part.topk == 2


def test_a_prompt_is_never_split() -> None:
    prompt = PrefillPayload((Segment((1, 2)),))
    assert split_rows(prompt, 0, 1) is prompt
    with pytest.raises(InternalError):
        split_rows(prompt, 0, 0)


def test_a_prompt_that_is_ridden_ends_with_what_is_written() -> None:
    salted = PrefillPayload((Segment((1, 2)),), "salt", KvReuse(ReusePolicy.FUSIONRAG), rows=0)
    ridden = replace(salted, has_rider=True, load_id=7)
    assert salted.ridden(7, ()) == ridden
    ends = (*salted.segments, Segment((3,)))
    assert salted.ridden(7, (3,)) == replace(ridden, segments=ends)


def test_errors_say_who_and_how_long() -> None:
    assert "2.5 s" in str(Busy("full", wait_s=2.5))
    assert "llm" in str(EngineError("broke", engine="llm", request_ids=(7,)))
    assert issubclass(ConfigError, HeddleError)
    assert issubclass(ConfigError, ValueError)


def test_pending_segments_say_so() -> None:
    assert Segment(None).is_pending
    assert not Segment(()).is_pending
