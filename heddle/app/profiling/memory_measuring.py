"""Measures a memory profile: generation with several sizes of KV pages, and retrieval.

Source: HedraRAG §4.4 (T_G and T_R are measured offline, under several rates).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heddle.app.memory_profile import MemoryProfile
from heddle.app.observe.stage_window import stages_of
from heddle.app.profiling.throughput import Throughput
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError
from heddle.core.printing.sizes import mib
from heddle.corpus.store import CorpusStore
from heddle.costs.memory_split import MeasuredCurves, RatePoint, StageMix
from heddle.runtime.clock import SystemClock
from heddle.runtime.events import Answer
from heddle.runtime.handle import Handle
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

QUESTIONS: Final = 8  # that tell the mix, and whose prompts are generated from
WORDS: Final = 12  # of a passage that are a question
SHARES: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the KV pages that are planned without it

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MemoryMeasuring:
    """What is measured, and how long.

    Args:
        config: of the server; it has an index, and a generator of this machine.
        workflow: the requests' workflow, by name.
        seconds: for each rate [s]; in all about 40 times as long.
        seed: draws arrivals.
        tell: hears of each figure.
    """

    config: ServerConfig
    workflow: str
    seconds: float
    seed: int
    tell: Tell

    def run(self) -> MemoryProfile:
        """Return the profile.

        Raises:
            ConfigError, InputError: the server can't be started, or has no passages.
            HeddleError: a request failed.
        """
        with Server.from_config(self.config) as server:
            assert server.store is not None, "a server with an index has a corpus"
            assert server.generator is not None, "a server with a generator has its files"
            questions = _questions(server.store)
            answers = [server.app(self.workflow).invoke(question) for question in questions]
            mix = _mix(answers)
            self.tell(
                f"{self.workflow}: {mix.generations:g} generations, {mix.searches:g} searches"
            )
            retrieval = self._retrieval(server, questions)
            planned, generator = server.plan.placement.kv_bytes, server.generator.fingerprint
            cpu, lanes = server.plan.machine.cpu_model, server.plan.roles
        prompts = [_prompt(*pair) for pair in zip(questions, answers, strict=True)]
        generation = dict(self._generation(planned, prompts))
        if not generation:
            raise ConfigError(
                f"{self.workflow}: its prompts don't fit into {planned:,} bytes of KV pages: raise "
                "the memory limit, or name a smaller model"
            )
        curves = MeasuredCurves(generation, retrieval)
        return MemoryProfile(curves, mix, self.workflow, generator, cpu, lanes)

    def _retrieval(self, server: Server, questions: Sequence[str]) -> tuple[RatePoint, ...]:
        # A number makes each one new to caches.
        points = self._curve(
            lambda number: server.submit_search(f"{number} {questions[number % len(questions)]}")
        )
        self.tell(f"retrieval: {_words(points)}")
        return points

    def _curve(self, submit: Callable[[int], Handle]) -> tuple[RatePoint, ...]:
        return Throughput(submit, SystemClock(), self.seconds, self.seed).curve()

    def _generation(
        self, planned: int, prompts: Sequence[str]
    ) -> Iterator[tuple[int, tuple[RatePoint, ...]]]:
        workflow = _generation_alone()
        for share in SHARES:
            size = int(planned * share)
            config = replace(self.config, index=None, kv_cache_bytes=size)
            with Server.from_config(config) as server:

                def submit(number: int, server: Server = server) -> Handle:
                    text = prompts[number % len(prompts)]
                    return server.submit(workflow, f"{number}\n{text}")

                if (problem := _refusal(submit)) is not None:
                    self.tell(f"generation with {mib(size)} of KV pages: left out, {problem}")
                    continue
                points = self._curve(submit)
            self.tell(f"generation with {mib(size)} of KV pages: {_words(points)}")
            yield size, points


def _questions(store: CorpusStore) -> list[str]:
    chunk_ids = store.vector_ids()
    if not len(chunk_ids):
        raise InputError(f"{store.place} has no passages: index documents first")
    chosen = chunk_ids[:: max(1, len(chunk_ids) // QUESTIONS)][:QUESTIONS]
    passages = store.passages([int(chunk_id) for chunk_id in chosen])
    return [" ".join(passage.text.split()[:WORDS]) for passage in passages]


def _mix(answers: Sequence[Answer]) -> StageMix:
    generations, searches = zip(*(stages_of(answer.receipt) for answer in answers), strict=True)
    return StageMix(sum(generations) / len(answers), sum(searches) / len(answers))


def _prompt(question: str, answer: Answer) -> str:
    texts = [passage.text for passage in answer.passages]
    return "\n\n".join((*texts, question))


def _refusal(submit: Callable[[int], Handle]) -> InputError | None:
    """Return why the first of all prompts, or any other as long, doesn't fit; None = it does."""
    try:
        submit(0).result()
    except InputError as error:
        return error
    return None


def _generation_alone() -> Workflow:
    graph = RAGraph("generation")
    return graph.add_generation("answer", "{query}", max_tokens=32).compile()


def _words(points: Sequence[RatePoint]) -> str:
    return ", ".join(f"{p.answered_per_s:.2f} of {p.rate_per_s:.2f}/s" for p in points)
