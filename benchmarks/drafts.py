"""Steps that drafts save where a loop writes its answer again, with more passages in the prompt.

HedraRAG's iterative workflow (irg, two turns) answers Wikipedia questions one after another on real
engines: the packaged embedder, the default index over 46,000 passages (quick: 2,000), the reader in
float32. Once with the pass `draft_answers` and once without it, on servers that differ in nothing
else. Steps are counted, not timed; how long a draft is depends on the step times that the engine
has fitted.

`steps_saved_share` is the share of the LLM engine's steps, prompts and first turns included, that
drafts save. `accepted_share` is that of the drafted tokens that were right. `texts_same_share` says
how often the second text is the first one. `tokens_equal` is 1 where every turn of every question
gives the same text with and without drafts, and as many tokens.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.support.data import rows
from benchmarks.support.wiki_index import wiki_index
from heddle.app.assembly.lanes import LLM
from heddle.app.server import Server
from heddle.runtime.events import NodeStarted, TokenDelta

PASS: Final = "draft_answers"
WORKFLOW: Final = "irg"
NODE: Final = "answer"
QUESTIONS: Final = 40
QUESTIONS_QUICK: Final = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the text of each turn, and what the LLM engine did for it."""

    texts: tuple[str, ...]
    steps: int
    tokens: int
    drafted: int
    accepted: int
    repeated: int


def run(quick: bool, seed: int, questions: int | None = None) -> dict[str, object]:
    """Ask the same questions with drafts and without."""
    count = questions or (QUESTIONS_QUICK if quick else QUESTIONS)
    wiki = wiki_index(quick)
    asked = [row["question"] for row in rows(wiki.single)][:count]
    drafted = _ask(wiki.directory, asked, frozenset())
    plain = _ask(wiki.directory, asked, frozenset({PASS}))
    pairs = list(zip(asked, drafted, plain, strict=True))
    return {
        "settings": {"questions": len(asked), "workflow": WORKFLOW, "dtype": "float32"},
        "rows": [
            {"question": question, "drafted": asdict(one), "plain": asdict(other)}
            for question, one, other in pairs
        ],
        "headline": {
            "steps_saved_share": 1.0 - _steps(drafted) / _steps(plain),
            "accepted_share": _share(drafted),
            "texts_same_share": sum(len(set(a.texts)) == 1 for a in plain) / len(plain),
            "tokens_equal": int(
                all((a.texts, a.tokens) == (b.texts, b.tokens) for _, a, b in pairs)
            ),
        },
    }


def _ask(index: Path, questions: Sequence[str], disabled: frozenset[str]) -> list[Asked]:
    with Server("reader", index, dtype="float32", disabled_passes=disabled) as server:
        return [_answered(server, question) for question in questions]


def _answered(server: Server, question: str) -> Asked:
    before = _steps_of(server)
    handle = server.submit(WORKFLOW, question)
    texts: dict[int, str] = defaultdict(str)
    turn = 0
    for event in handle:
        if isinstance(event, NodeStarted) and event.node == NODE:
            turn = event.turn
        elif isinstance(event, TokenDelta) and event.node == NODE:
            texts[turn] += event.text
    receipt = handle.result().receipt
    return Asked(
        texts=tuple(texts.values()),
        steps=_steps_of(server) - before,
        tokens=receipt.generated_tokens,
        drafted=receipt.drafted_tokens,
        accepted=receipt.accepted_tokens,
        repeated=receipt.repeated,
    )


def _steps_of(server: Server) -> int:
    """Return how many steps the LLM engine has made."""
    steps = server.state().tally.steps
    return sum(steps[LLM].counts) if LLM in steps else 0


def _steps(asked: Sequence[Asked]) -> int:
    return sum(one.steps for one in asked)


def _share(asked: Sequence[Asked]) -> float:
    drafted = sum(one.drafted for one in asked)
    return sum(one.accepted for one in asked) / drafted if drafted else 0.0
