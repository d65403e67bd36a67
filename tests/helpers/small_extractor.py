"""A model small enough for unit tests, and lessons for it."""

from extractor_training.answer_spans import answer_spans
from extractor_training.rows import Passage, Row
from extractor_training.span_model import Shape, new_model
from extractor_training.training_list import Lesson

SHAPE = Shape(width=32, inner=48, n_layers=2, n_heads=4)
CITIES = ("Lisbon", "Oslo", "Quito", "Hanoi", "Accra", "Lima")


def small_model(seed=0):
    model = new_model(SHAPE, seed)
    model.freeze_embeddings()
    return model


def passage(key, text, title="Note"):
    return Passage(key, title, text)


def row(key, question, text, answers):
    ours = passage(key, text)
    return Row(key, "test", question, tuple(answers), ours, tuple(answer_spans(text, answers)))


def lessons():
    return [
        Lesson(
            row(f"r{n}", f"where does guest {n} live", f"Guest {n} lives in {city}.", [city]),
            (passage(f"n{n}", f"Guest {n + 1} sails to Rome."), passage(f"m{n}", "It rains.")),
            1.0 if n % 2 else 0.5,
        )
        for n, city in enumerate(CITIES)
    ]
