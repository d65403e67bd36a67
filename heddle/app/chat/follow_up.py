"""From a question in a conversation to one that can be understood alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heddle.core.texts.content_words import WORD, content_words, stem
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

TURNS_KEPT: Final = 10
TURNS_SHOWN: Final = 3  # to the model that rewrites a question
ANSWER_CHARS_SHOWN: Final = 300
WORDS_CARRIED_MAX: Final = 8
REWRITE_TOKENS: Final = 64
LONGER_MAX: Final = 400  # characters that a rewritten question may have more
REWRITE: Final = prompt_text("rewrite")


# Words that stand for something that was said before.
STANDS_FOR: Final = frozenset(
    WORD.findall(
        "he her hers him his it its one ones she that their theirs them there these they this those"
        " another else other others same so"
    )
)
GOES_ON: Final = frozenset(("and", "but", "or", "so", "then", "also"))  # as the first word


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of a conversation, the one that was asked for it, and the answer."""

    question: str
    asked: str
    answer: str


def leans(question: str) -> bool:
    """Whether a question seems to need what was said before: by a pronoun, or few own words."""
    words = [word.lower() for word in WORD.findall(question)]
    has_sign = bool(STANDS_FOR & set(words)) or (bool(words) and words[0] in GOES_ON)
    return has_sign or len(content_words(question)) <= 1


def with_subject(question: str, history: Sequence[Turn]) -> str:
    """Return a question with the content words of the one before it.

    The question before is taken in the form that was asked. Words that the question has already
    are left out. One without a turn before it stays unchanged.
    """
    if not history:
        return question
    own = {stem(word) for word in content_words(question)}
    before = content_words(history[-1].asked)
    carried = [word for word in before if stem(word) not in own][:WORDS_CARRIED_MAX]
    return f"{question} ({' '.join(carried)})" if carried else question


def conversation_text(history: Sequence[Turn]) -> str:
    """Return the last turns as text, long answers cut."""
    lines = []
    for turn in list(history)[-TURNS_SHOWN:]:
        answer = " ".join(turn.answer.split())
        cut = answer[: ANSWER_CHARS_SHOWN - 1] + "…" if len(answer) > ANSWER_CHARS_SHOWN else answer
        lines += [f"Question: {turn.question}", f"Answer: {cut}"]
    return "\n".join(lines)


def rewrite_workflow() -> Workflow:
    """Return the workflow in which a model rewrites a question; inputs: query, conversation."""
    graph = RAGraph("rewrite", inputs=("conversation",))
    graph.add_generation(
        "rewrite", REWRITE, output="question", max_tokens=REWRITE_TOKENS, stop=["\n"]
    )
    return graph.compile()


def rewritten(question: str, reply: str) -> str:
    """Return the question that a model wrote, or the old one where it wrote none of use."""
    text = reply.strip().strip('"').strip()
    return text if 0 < len(text) <= len(question) + LONGER_MAX else question
