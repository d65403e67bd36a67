"""How a model's quotes of documentation are counted."""

import pytest
from extractor_training import handbook_measures as measured
from extractor_training.handbook_measures import handbook_measures
from extractor_training.measures import Quote
from extractor_training.rows import Passage, Row

SORTED = Passage("1", "tool", "Keys stay in order. --sort-keys puts them in the order of letters.")
INDENTED = Passage("2", "tool", "--indent takes a number of blanks. The default is 4.")


def _row(question, answer, passage=SORTED):
    start = passage.text.find(answer)
    spans = ((start, start + len(answer)),) if answer else ()
    return Row(f"handbook/tool.md/{question}", "handbook", question, (answer,) * bool(answer),
               passage, spans)  # fmt: skip


def test_right_quotes_hold_the_answer_and_the_score_tells_them_from_others(monkeypatch):
    found = {
        "sort": {"1": Quote(3.0, "order of letters"), "2": Quote(1.0, "4")},  # right sentence
        "keep": {"1": Quote(2.0, "Keys stay in order"), "2": Quote(2.5, "4")},  # another passage
        "none": {"1": Quote(-1.0, "Keys"), "2": Quote(-2.0, "4")},
    }
    monkeypatch.setattr(
        measured, "quotes", lambda _model, _tokenizer, pairs: [found[q][p.key] for q, p in pairs]
    )
    asked = [
        (_row("sort", "--sort-keys"), (INDENTED,)),
        (_row("keep", "in order"), (INDENTED,)),
        (_row("none", ""), (INDENTED,)),
    ]
    measures = handbook_measures(None, None, asked)
    assert measures["questions"] == 3
    assert measures["right_quotes"] == 0.5
    assert measures["auroc"] == 1.0
    assert measures["score_90%"] == pytest.approx(3.0)
    assert measures["declined_90%"] == 1.0
