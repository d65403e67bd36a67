import asyncio
from dataclasses import replace

import pytest

from benchmarks.coscheduling.fifo_setting import FifoSetting, best_of, tried_settings
from benchmarks.coscheduling.search_calls import PIECES, SearchCalls


def tried(per_s: dict[FifoSetting, float], most: int = 8) -> list[FifoSetting]:
    """The settings that are tried, and the best of them behind."""

    async def measure(setting: FifoSetting) -> float:
        return per_s.get(setting, 1.0)

    found = asyncio.run(tried_settings(measure, most))
    return [*(one.setting for one in found), best_of(found)]


def test_chunks_are_tried_with_the_best_way_to_search() -> None:
    whole = FifoSetting(SearchCalls.WHOLE_BATCHES, 512)
    larger = FifoSetting(SearchCalls.WHOLE_BATCHES, 1024)
    *settings, best = tried({whole: 2.0, larger: 3.0})
    assert len(settings) == len(set(settings)) == 8
    assert {one.calls for one in settings[:3]} == set(SearchCalls)
    assert {one.calls for one in settings[3:]} == {SearchCalls.WHOLE_BATCHES}
    assert best == larger


@pytest.mark.parametrize(("llm", "retrieval"), [(True, False), (False, True), (True, True)])
def test_lanes_have_all_cores_where_that_serves_more(llm: bool, retrieval: bool) -> None:
    everywhere = FifoSetting(is_llm_everywhere=llm, is_retrieval_everywhere=retrieval)
    smaller = replace(everywhere, prompt_chunk=256)
    *settings, best = tried({FifoSetting(): 2.0, everywhere: 3.0, smaller: 4.0})
    assert everywhere in settings[3:6]
    assert {one.prompt_chunk for one in settings[6:]} == {256, 1024}
    assert best == smaller


def test_a_setting_that_is_the_best_already_stays() -> None:
    *_, best = tried({FifoSetting(): 2.0})
    assert best == FifoSetting()


def test_a_short_run_tries_what_engines_have_by_default() -> None:
    assert tried({FifoSetting(): 2.0}, most=1) == [FifoSetting(), FifoSetting()]


def test_a_query_by_itself_has_no_other_beside_it() -> None:
    assert PIECES[SearchCalls.ONE_A_QUERY].slots == 1
    assert PIECES[SearchCalls.ONE_A_QUERY].budget_s == float("inf")
