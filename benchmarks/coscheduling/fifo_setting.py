"""How engines that serve calls as they come are set so that they serve most of them."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

from benchmarks.coscheduling.search_calls import SearchCalls

PROMPT_CHUNKS: Final = (256, 512, 1024)


@dataclass(frozen=True, slots=True)
class FifoSetting:
    """How the vector engine takes queries, the most tokens of one LLM step, and who has all cores.

    `is_llm_everywhere`: it has as many threads as there are cores, on any of them, instead of the
    cores that retrieval leaves; `is_retrieval_everywhere`: so has retrieval, instead of its share.
    """

    calls: SearchCalls = SearchCalls.SUBSTAGES
    prompt_chunk: int = 512
    is_llm_everywhere: bool = False
    is_retrieval_everywhere: bool = False

    @property
    def words(self) -> str:
        """What the screen says of it."""
        llm = ", the LLM on all cores" if self.is_llm_everywhere else ""
        retrieval = ", retrieval on all cores" if self.is_retrieval_everywhere else ""
        return f"{self.calls.value}, prompt chunk {self.prompt_chunk}{llm}{retrieval}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A setting and its throughput with as many questions in flight as are kept [1/s]."""

    setting: FifoSetting
    per_s: float

    def record(self) -> dict[str, object]:
        """Return it as a row of results."""
        fields = asdict(self.setting)
        return {**fields, "calls": self.setting.calls.value, "per_s": self.per_s}


async def tried_settings(
    measure: Callable[[FifoSetting], Awaitable[float]], most: int
) -> list[Tried]:
    """Try ways of searching, then all cores for the LLM, retrieval and both, then prompt chunks.

    Each is tried with the best of what was tried before.

    Args:
        measure: returns the throughput with a setting [1/s].
        most: as many are tried; the first is what engines have by default.
    """
    calls = [FifoSetting(calls) for calls in reversed(SearchCalls)]
    tried = [await _try(setting, measure) for setting in calls[:most]]
    best = best_of(tried)
    everywhere = [
        replace(best, is_llm_everywhere=llm, is_retrieval_everywhere=retrieval)
        for llm, retrieval in ((True, False), (False, True), (True, True))
    ]
    tried += [await _try(setting, measure) for setting in everywhere[: most - len(tried)]]
    chunks = [replace(best_of(tried), prompt_chunk=chunk) for chunk in PROMPT_CHUNKS]
    known = [one.setting for one in tried]
    others = [setting for setting in chunks if setting not in known]
    return tried + [await _try(setting, measure) for setting in others[: most - len(tried)]]


def best_of(tried: list[Tried]) -> FifoSetting:
    """Return the setting with the largest throughput."""
    return max(tried, key=lambda one: one.per_s).setting


async def _try(setting: FifoSetting, measure: Callable[[FifoSetting], Awaitable[float]]) -> Tried:
    per_s = await measure(setting)
    print(f"asyncio_fifo with {setting.words}: {per_s:.2f} questions/s", flush=True)
    return Tried(setting, per_s)
