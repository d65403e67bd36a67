"""Real text that every Python carries: the language reference, as `help()` shows it."""

import re
from functools import cache
from pydoc_data.topics import topics
from string import ascii_uppercase
from textwrap import dedent

from heddle.demo.corpus import PARAGRAPH_BORDER, DemoDocument

LANGUAGE_QUESTIONS = (
    "How do I define a function that takes any number of keyword arguments?",
    "When is the else clause of a loop executed?",
    "Which methods must an object have to be used in a with statement?",
    "How is the result of comparing two lists decided?",
    "What happens when no except clause matches the exception?",
)

# No topic speaks of it.
LANGUAGE_UNANSWERABLE = "What is the telephone number of the support hotline?"

_UNDERLINE = re.compile(r"[*=\-~^]{3,}")
_FOOTNOTE_HEADING = re.compile(r"-\[ (.+) \]-")
_INLINE_MARKUP = re.compile(
    r"\*\*([^*\s][^*]*)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])|``([^`]+)``"
)

_SENTENCE_STARTS = frozenset(ascii_uppercase + '"*')
_SENTENCE_ENDS = frozenset(".:;)")
_CODE_MARKS = ("::=", ">>>", " = ")


@cache
def language_reference_documents() -> tuple[DemoDocument, ...]:
    """Return one document for each topic of this Python's own language reference.

    The title is the topic's heading, or its name where it has none. A paragraph that stands in
    several topics (chapters repeat their sections) is kept in the shortest of them only.
    """
    seen: set[str] = set()
    documents = []
    for name, raw in sorted(topics.items(), key=lambda topic: (len(topic[1]), topic[0])):
        heading, paragraphs = _plain(raw)
        fresh = [text for text in paragraphs if text not in seen]
        seen.update(fresh)
        if fresh:
            text = PARAGRAPH_BORDER.join(fresh)
            documents.append(DemoDocument(id=f"python-{name}", title=heading or name, text=text))
    return tuple(sorted(documents, key=lambda document: document.id))


def _plain(raw: str) -> tuple[str, list[str]]:
    """Return the heading (empty if there is none) and the paragraphs without markup."""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", raw) if block.strip()]
    heading = ""
    if blocks and _is_heading(blocks[0]):
        heading = _unmarked(blocks.pop(0).splitlines()[0])
    return heading, [_paragraph(block) for block in blocks]


def _is_heading(block: str) -> bool:
    lines = block.splitlines()
    return len(lines) == 2 and _UNDERLINE.fullmatch(lines[1].strip()) is not None


def _paragraph(block: str) -> str:
    """Drop underlines; drop indentation and markup too unless the block is code or grammar."""
    lines = [line.rstrip() for line in block.splitlines()]
    text = "\n".join(line for line in lines if not _UNDERLINE.fullmatch(line.strip()))
    return text if _is_code(text) else _unmarked(dedent(text)).strip()


def _is_code(text: str) -> bool:
    """Say whether an indented block is code or grammar, where quotes and asterisks mean much.

    The topics mark code by indentation only, as they do the prose under a definition. Prose is
    recognised by its capital letter and its full stop.
    """
    words = text.strip()
    is_sentence = words[:1] in _SENTENCE_STARTS and words[-1:] in _SENTENCE_ENDS
    return text.startswith("   ") and (not is_sentence or any(m in words for m in _CODE_MARKS))


def _unmarked(text: str) -> str:
    text = _FOOTNOTE_HEADING.sub(r"\1", text)
    text = _INLINE_MARKUP.sub(lambda match: next(filter(None, match.groups())), text)
    return re.sub(r'"([^"\s][^"]*)"', r"\1", text)
