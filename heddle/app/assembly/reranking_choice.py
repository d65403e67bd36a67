"""Whether a server reranks the passages of workflow `oneshot`, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heddle.app.assembly.readers import Reader
from heddle.app.models.model_files import ModelFiles, layer_parameters
from heddle.app.models.remote_name import is_remote
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.costs.reranking import ModelWork, RankedSearch, reranking_pays
from heddle.workflow.ragraph import DEFAULT_TOPK

_MILLION: Final = 1e6


@dataclass(frozen=True, slots=True)
class RerankingChoice:
    """Whether passages are reranked that leave it to the server, and the reason in words."""

    is_on: bool
    why: str

    def line(self) -> str:
        """Return the choice as `heddle doctor` prints it."""
        ranked = RankedSearch.instead_of(DEFAULT_TOPK)
        if self.is_on:
            return f"oneshot reads {ranked.found} passages and keeps {ranked.kept}: {self.why}"
        return f"oneshot keeps its passages as they are found: {self.why}"


def choose_reranking(
    config: ServerConfig,
    generator: ModelFiles | None,
    readers: Sequence[Reader],
    reader_threads: int,
    llm_threads: int,
    *,
    llm_on_cpu: bool,
) -> RerankingChoice:
    """Decide by `config.rerank`, and for "auto" by what reading and the longer prompt take.

    Args:
        config: the server's.
        generator: the LLM's files; None = another server runs it, or there is none.
        readers: the models that read in this server.
        reader_threads: of the lane that reads.
        llm_threads: of the LLM lane that has most.
        llm_on_cpu: whether the LLM computes where the readers do.

    Raises:
        ConfigError: reranking is wanted, and no model ranks.
    """
    ranking = [reader for reader in readers if PrimitiveKind.RERANKING in reader.facts.kinds]
    if config.rerank == "never":
        return RerankingChoice(False, "rerank is never")
    if config.rerank == "always":
        if not ranking and not is_remote(config.reranker):
            raise ConfigError(
                "rerank (--rerank) is 'always', and no model ranks: name one, such as "
                "--reranker extract"
            )
        return RerankingChoice(True, "rerank is always")
    if config.speculate == "always":
        return RerankingChoice(False, "prompts are computed while their search still runs")
    if generator is None or not llm_on_cpu or not ranking:
        return RerankingChoice(False, "no model on the LLM's own processor ranks")
    reader = ModelWork(layer_parameters(ranking[0].facts.directory), reader_threads)
    llm = ModelWork(layer_parameters(generator.directory), max(1, llm_threads))
    pays = reranking_pays(reader, llm, DEFAULT_TOPK)
    takes = "less" if pays else "no less"
    return RerankingChoice(
        pays,
        f"reading takes {takes} time than the longer prompt ({_words(reader)}, {_words(llm)})",
    )


def _words(work: ModelWork) -> str:
    threads = "1 thread" if work.threads == 1 else f"{work.threads} threads"
    return f"{work.parameters / _MILLION:.0f} million weights on {threads}"
