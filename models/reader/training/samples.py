"""Training samples: a chat as (text, is it a reply?) pieces, ready for the tokenizer."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from . import prompts
from .fillings import Fillings, Split
from .notes import Notes, NotesStyle, write_notes
from .questions import Kind, Question, ask
from .town import town_notes
from .world import draw_world, state

_STEP_WEIGHTS = {
    "hyde": 2,
    "decompose": 2,
    "compress": 4,
    "from_summary": 1,
    "judge": 1,
    "refine": 1,
}
_SHUFFLED = 0.6  # cloze turns in random order: the words must be matched, not their sequence


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the samples of a training phase look like.

    n_subjects, n_facts: lowest and highest number, both inclusive.
    max_questions: questions asked one after another on the same notes.
    step_share: samples that train a workflow step instead of plain answers.
    single_share: samples with one question only, as in use.
    cloze_share: further turns that give a sentence up to its value instead of a question; they
        lead from copying to answering.
    described_rate: share of the questions that say more of a person than the name.
    town_share: notes worded as the demo's (`town`).
    wordings: how many plain wordings of each relation are used (Relation.plain); 0: all, also
        those that are not plain.
    """

    n_subjects: tuple[int, int]
    n_facts: tuple[int, int]
    style: NotesStyle
    weights: dict[Kind, float]
    max_questions: int = 12
    step_share: float = 0.0
    single_share: float = 0.0
    cloze_share: float = 0.0
    described_rate: float = 0.0
    town_share: float = 0.0
    wordings: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; replies are learned, the rest is read.

    question: the one that a reply answers with its last words.
    """

    text: str
    is_reply: bool = False
    kind: str = ""
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A further question on the same notes."""

    text: str
    kind: str
    question: Question


@dataclass(frozen=True, slots=True)
class Sample:
    pieces: tuple[Piece, ...]
    notes: Notes | None = None


def _chat(
    opening: tuple[str, str, str],
    rest: Sequence[Turn] = (),
    notes: Notes | None = None,
    first: Question | None = None,
) -> Sample:
    """One full prompt, then further questions on the same notes, worded as its last line."""
    content, reply, kind = opening
    pieces = [Piece(prompts.BOS), Piece(prompts.user_turn(content))]
    pieces.append(Piece(reply + prompts.EOS, is_reply=True, kind=kind, question=first))
    for turn in rest:
        pieces.append(Piece(prompts.user_turn(prompts.QUESTION.format(query=turn.text))))
        pieces.append(
            Piece(
                turn.question.answer + prompts.EOS,
                is_reply=True,
                kind=turn.kind,
                question=turn.question,
            )
        )
    return Sample(tuple(pieces), notes)


def _turns(questions: list[Question], cloze_share: float, rng: random.Random) -> list[Turn]:
    turns = []
    for question in questions:
        turn = Turn(question.text, question.kind.value, question)
        if question.kind is Kind.SINGLE_HOP and rng.random() < cloze_share:
            opening = question.evidence[0].partition(question.answer)[0].strip()
            words = opening.split()
            if rng.random() < _SHUFFLED:
                rng.shuffle(words)
            turn = Turn(" ".join(words), "cloze", question) if len(words) > 2 else turn
        turns.append(turn)
    return turns


def answer_sample(notes: Notes, first: Question, rest: Sequence[Turn]) -> Sample:
    """The ANSWER prompt for the first question, bare questions for the further turns."""
    opening = prompts.ANSWER.format(docs=notes.render(), query=first.text)
    return _chat((opening, first.answer, first.kind.value), rest, notes, first)


def _hyde_turn(notes: Notes, rng: random.Random) -> tuple[str, str]:
    subject = rng.choice(notes.world)
    fact = rng.choice(subject.facts)
    query = rng.choice(fact.questions(subject.name))
    return prompts.HYDE.format(query=query), state(subject, fact, "name", rng)


def _decompose_turn(question: Question) -> tuple[str, str]:
    reply = "\n".join(json.dumps(q, ensure_ascii=False) for q in question.sub_questions)
    return prompts.DECOMPOSE.format(query=question.text), reply


def _summary(question: Question) -> str:
    """What the notes say about a question: what has to be asked first, with the answers."""
    if question.kind is Kind.NOT_IN_NOTES:
        return question.answer
    values = [fact.value for _, fact in question.steps] or [question.answer]
    return "\n".join(map(" ".join, zip(question.sub_questions, values, strict=True)))


def _compress_turn(notes: Notes, question: Question) -> tuple[str, str]:
    content = prompts.COMPRESS.format(docs=notes.render(), query=question.text)
    return content, _summary(question)


def _from_summary_turn(question: Question) -> tuple[str, str]:
    docs = prompts.render_passage("Notes", _summary(question))
    return prompts.ANSWER.format(docs=docs, query=question.text), question.answer


def _judge_turn(notes: Notes, question: Question) -> tuple[str, str]:
    content = prompts.JUDGE.format(docs=notes.render(), query=question.text)
    return content, "no" if question.kind is Kind.NOT_IN_NOTES else "yes"


def _refine_turn(notes: Notes, question: Question, rng: random.Random) -> tuple[str, str]:
    others = [f.value for s in notes.world for f in s.facts]
    earlier = rng.choice([question.answer, rng.choice(others), prompts.NOT_IN_NOTES])
    content = prompts.REFINE.format(docs=notes.render(), answer=earlier, query=question.text)
    return content, question.answer


def step_sample(notes: Notes, first: Question, rest: Sequence[Turn], rng: random.Random) -> Sample:
    """One workflow step, then plain questions on the same notes where the step has shown them."""
    step = rng.choices(list(_STEP_WEIGHTS), list(_STEP_WEIGHTS.values()))[0]
    if step == "hyde":
        return _chat((*_hyde_turn(notes, rng), step))
    if step == "decompose":
        return _chat((*_decompose_turn(first), step))
    if step == "from_summary":
        return _chat((*_from_summary_turn(first), step))
    if step == "compress":
        shown = None if first.kind is Kind.COMPARISON else first
        return _chat((*_compress_turn(notes, first), step), rest, notes, shown)
    if step == "judge":
        turn = _judge_turn(notes, first)
    else:
        turn = _refine_turn(notes, first, rng)
    return _chat((*turn, step), rest, notes)


def draw_notes(recipe: Recipe, fillings: Fillings, rng: random.Random) -> Notes:
    n_subjects = rng.randint(*recipe.n_subjects)
    if recipe.town_share and rng.random() < recipe.town_share:
        return town_notes(1 + n_subjects // 2, fillings, rng)
    world = draw_world(rng, fillings, n_subjects, *recipe.n_facts, recipe.wordings)
    return write_notes(world, recipe.style, rng)


def draw_sample(recipe: Recipe, rng: random.Random, split: Split = Split.TRAIN) -> Sample:
    """One seeded sample of a recipe."""
    fillings = Fillings(rng, split)
    while True:
        notes = draw_notes(recipe, fillings, rng)
        n_questions = 1 if rng.random() < recipe.single_share else recipe.max_questions
        questions = ask(notes, recipe.weights, n_questions, fillings, rng, recipe.described_rate)
        if not questions:
            continue
        first, *others = questions
        rest = _turns(others, recipe.cloze_share, rng)
        if rng.random() < recipe.step_share:
            return step_sample(notes, first, rest, rng)
        return answer_sample(notes, first, rest)
