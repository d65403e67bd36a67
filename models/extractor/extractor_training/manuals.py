"""Questions about the parameters of a library, made from its documentation strings.

People ask manuals for defaults, names and types; the other data has no such questions. The
passages are scikit-learn's (BSD-3-Clause), in three layouts that manuals use.
"""

import ast
import importlib.util
import random
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .answer_spans import answer_spans
from .rows import Passage, Row

LIBRARY = "sklearn"
SOURCE = "manuals"
_PASSAGE_CHARACTERS = 800
_PER_CLASS = 4  # questions at most
_ENTRY = re.compile(r"^(\w+) : (.+)$")
_DEFAULT = re.compile(r",? ?default ?[=:] ?(.+)$")

_ASK_DEFAULT = (
    "What is the default of {name} in {owner}?",
    "What is the default value of {name}?",
    "Which value does {name} have by default?",
    "What is {name} set to if I don't give it?",
    "{owner} {name} default",
)
_ASK_TYPE = ("What type is {name}?", "What type does {owner} expect for {name}?")
_ASK_NAME = (
    "Which parameter of {owner} is {meaning}?",
    "Which option gives {meaning}?",
    "How is the setting called that is {meaning}?",
)
_ASK_MEANING = ("What is {name}?", "What does {name} of {owner} stand for?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as documented; `default` is "" where none is named."""

    name: str
    type: str
    default: str
    text: str


def manual_rows(seed: int) -> list[tuple[Row, tuple[Passage, ...]]]:
    """Rows with the passages of the same class that don't speak of the parameter asked for.

    Empty where the library isn't installed.
    """
    rng = random.Random(seed)
    rows = []
    for owner, parameters in _classes():
        layout = rng.choice((_numpydoc, _command_line, _bullets))
        passages = _passages(owner, parameters, layout)
        asked = [row for passage, ours in passages for row in _questions(rng, owner, passage, ours)]
        for row, name in rng.sample(asked, min(_PER_CLASS, len(asked))):
            others = [p for p, _ in passages if not _names(p, name) and p != row.passage]
            rows.append((row, tuple(others)))
    return rows


def _classes() -> Iterator[tuple[str, list[Parameter]]]:
    found = importlib.util.find_spec(LIBRARY)
    if found is None or found.origin is None:
        return
    seen = set()
    for file in sorted(Path(found.origin).parent.rglob("*.py")):
        if "tests" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                parameters = list(_parameters(ast.get_docstring(node) or ""))
                if len(parameters) > 2 and node.name not in seen:
                    seen.add(node.name)
                    yield node.name, parameters


def _parameters(docstring: str) -> Iterator[Parameter]:
    _, _, rest = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w[\w ]*\n-{3,}\n", rest)[0]
    for entry in re.split(r"\n(?=\w+ : )", section.strip()):
        lines = entry.splitlines()
        head = _ENTRY.match(lines[0]) if lines else None
        text = _first_paragraph(lines[1:])
        if head and text:
            kind = head[2].removesuffix("\\").strip()
            default = _DEFAULT.search(kind)
            value = default[1].strip(" '\"`") if default else ""
            yield Parameter(head[1], _DEFAULT.sub("", kind), value, text)


def _first_paragraph(lines: list[str]) -> str:
    text = textwrap.dedent("\n".join(lines)).strip().split("\n\n")[0]
    text = re.sub(r":\w+:`~?([^`<]*?)(?: <[^`]*>)?`", r"\1", text)
    return " ".join(text.replace("`", "").split())


def _passages(owner, parameters, layout) -> list[tuple[Passage, list[Parameter]]]:
    found, ours, size = [], [], 0
    for parameter in [*parameters, None]:
        if ours and (parameter is None or size + len(parameter.text) > _PASSAGE_CHARACTERS):
            text = "\n".join(layout(one) for one in ours)
            found.append((Passage(f"{LIBRARY}/{owner}/{len(found)}", owner, text), ours))
            ours, size = [], 0
        if parameter is not None:
            ours.append(parameter)
            size += len(parameter.text)
    return found


def _numpydoc(one: Parameter) -> str:
    return f"{one.name} : {one.type}{f', default={one.default}' if one.default else ''}\n{one.text}"


def _command_line(one: Parameter) -> str:
    default = f" (default: {one.default})" if one.default else ""
    return (
        f"--{_spoken(one.name)} {one.type.split()[0].strip(',').upper()}\n    {one.text}{default}"
    )


def _bullets(one: Parameter) -> str:
    default = f" Defaults to {one.default}." if one.default else ""
    return f"- {one.name} ({one.type}): {one.text}{default}"


def _questions(rng, owner, passage, parameters) -> Iterator[tuple[Row, str]]:
    for one in parameters:
        name = f"--{_spoken(one.name)}" if passage.text.startswith("--") else one.name
        sentence = one.text.split(". ")[0].rstrip(".")
        asked = []
        if one.default:
            asked.append((_ASK_DEFAULT, one.default))
        if 3 < len(one.type) < 60 and one.type in passage.text:
            asked.append((_ASK_TYPE, one.type))
        if 4 < len(sentence.split()) < 16:
            if sentence.startswith(("The ", "Number ", "Maximum ", "Minimum ")):
                asked.append((_ASK_NAME, name))
                asked.append((_ASK_NAME, name))
            asked.append((_ASK_MEANING, sentence))
        for templates, answer in asked:
            meaning = sentence[0].lower() + sentence[1:]
            question = rng.choice(templates).format(name=name, owner=owner, meaning=meaning)
            spans = _spans_of(passage.text, name, answer)
            if spans:
                key = f"{passage.key}/{one.name}/{templates[0]}"
                yield Row(key, SOURCE, question, (answer,), passage, spans), one.name


def _spans_of(text: str, name: str, answer: str) -> tuple[tuple[int, int], ...]:
    """The answer's first place in the entry of a parameter."""
    entry = re.search(rf"^(?:- )?{re.escape(name)}\b", text, re.MULTILINE)
    if entry is None:
        return ()
    after = [span for span in answer_spans(text, [answer]) if span[0] >= entry.start()]
    following = re.search(r"\n(?:- |--)?\w[\w-]*(?: :| \(| [A-Z])", text[entry.end() :])
    end = entry.end() + following.start() if following else len(text)
    inside = [span for span in after if span[1] <= end]
    return tuple(inside[:1])


def _names(passage: Passage, name: str) -> bool:
    return name in passage.text or _spoken(name) in passage.text


def _spoken(name: str) -> str:
    return name.replace("_", "-")
