"""What `heddle eval manuals` does beside asking: index the manuals, and time a first answer."""

import sys
from collections.abc import Sequence
from pathlib import Path

from heddle.app.index_paths import EmbedProgress, index_paths
from heddle.app.server_config import ServerConfig
from heddle.cli.progress import ProgressLines
from heddle.evals.manuals_scores import cpu_seconds, manuals_scores
from heddle.evals.metrics.quotes import QuotedAnswer, Reply
from heddle.evals.run import Outcome


def indexed_folder(folder: Path) -> Path:
    """Return the corpus of a folder's files, which lies beside it; index what isn't indexed yet."""
    corpus = folder.with_name("corpus")
    with ProgressLines() as progress:

        def on_vectors(state: EmbedProgress) -> None:
            progress.update("embedding chunks", state.chunks_done, state.chunks_total)

        index_paths(
            [folder], corpus, prune=True, on_documents=lambda state: None, on_vectors=on_vectors
        )
    return corpus


def manuals_headline(outcomes: Sequence[Outcome], seed: int) -> dict[str, float]:
    """Return the flat numbers of a run: see `evals.manuals_scores`."""
    replies = [_reply(outcome) for outcome in outcomes]
    return {name: found.mean for name, found in manuals_scores(replies, seed).items()}


def first_answer_cpu_s(config: ServerConfig, question: str) -> float:
    """Return the CPU seconds of `heddle ask` on the same corpus, from its start to its end."""
    model = str(config.generator)
    command = ("ask", str(config.index), question, "--model", model)
    return cpu_seconds([sys.executable, "-m", "heddle.cli.main", *command])


def _reply(outcome: Outcome) -> Reply:
    question, answer = outcome.case.question, outcome.answer
    if answer is None:
        return Reply(question, (), ())
    quotes = [QuotedAnswer(quote.sentence, quote.text) for quote in answer.quotes]
    if not quotes and not answer.nearest and answer.text:  # a model has written it
        quotes = [QuotedAnswer(answer.text, answer.text)]
    return Reply(question, quotes, [passage.text for passage in answer.passages])
