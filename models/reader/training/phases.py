"""The curriculum: what each phase draws, and how accurate the reader must be to move on."""

from dataclasses import dataclass

from .notes import NotesStyle
from .questions import Kind
from .relations import ALL_PLAIN
from .samples import Recipe


@dataclass(frozen=True, slots=True)
class Phase:
    """A recipe and when it ends: accuracy on fresh training draws, or a share of the budget."""

    name: str
    recipe: Recipe
    leave_at: float
    latest: float


_K = Kind

PHASES = (
    Phase(
        "plain",
        Recipe(
            (2, 4),
            (2, 4),
            NotesStyle(pronoun_rate=0.0),
            {_K.SINGLE_HOP: 1.0},
            max_questions=12,
            cloze_share=0.2,
            wordings=2,
        ),
        leave_at=0.8,
        latest=0.2,
    ),
    Phase(
        "names",
        Recipe(
            (2, 4),
            (2, 4),
            NotesStyle(pronoun_rate=0.0, joined_rate=0.2, aside_rate=0.2),
            {_K.SINGLE_HOP: 1.0},
            max_questions=14,
            cloze_share=0.15,
            wordings=4,
        ),
        leave_at=0.86,
        latest=0.45,
    ),
    Phase(
        "pronouns",
        Recipe(
            (3, 5),
            (2, 5),
            NotesStyle(pronoun_rate=0.6, split_rate=0.4, joined_rate=0.2, aside_rate=0.2),
            {_K.SINGLE_HOP: 6, _K.COREFERENCE: 4, _K.NOT_IN_NOTES: 1.5, _K.COMPARISON: 1},
            max_questions=16,
            wordings=6,
        ),
        leave_at=0.83,
        latest=0.5,
    ),
    Phase(
        "hops",
        Recipe(
            (3, 6),
            (2, 5),
            NotesStyle(
                pronoun_rate=0.7,
                split_rate=0.5,
                blank_title_rate=0.5,
                apart_rate=0.1,
                joined_rate=0.2,
                aside_rate=0.3,
            ),
            {
                _K.SINGLE_HOP: 4,
                _K.COREFERENCE: 4,
                _K.NOT_IN_NOTES: 2,
                _K.COMPARISON: 1.5,
                _K.TWO_HOP: 4,
            },
            max_questions=16,
            step_share=0.15,
            wordings=ALL_PLAIN,
        ),
        leave_at=0.82,
        latest=0.6,
    ),
    Phase(
        "long",
        Recipe(
            (2, 9),
            (3, 7),
            NotesStyle(
                pronoun_rate=0.7,
                split_rate=0.5,
                blank_title_rate=0.5,
                apart_rate=0.4,
                filler_rate=0.25,
                joined_rate=0.2,
                aside_rate=0.3,
                appositive_rate=0.15,
                pair_rate=0.4,
                free_fillers=True,
                free_title_rate=0.7,
            ),
            {
                _K.SINGLE_HOP: 4,
                _K.COREFERENCE: 5.5,
                _K.NOT_IN_NOTES: 0.7,
                _K.COMPARISON: 0.8,
                _K.TWO_HOP: 3.5,
            },
            max_questions=20,
            step_share=0.35,
            single_share=0.1,
            described_rate=0.3,
            town_share=0.5,
            wordings=ALL_PLAIN,
        ),
        leave_at=2.0,
        latest=1.0,
    ),
)
