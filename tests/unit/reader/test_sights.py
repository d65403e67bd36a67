import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from training.batches import encode
from training.fillings import Fillings, Split
from training.model import CPU_SHAPE, new_reader, reader_config
from training.phases import PHASES
from training.questions import Kind, ask
from training.samples import Turn, answer_sample, draw_notes, draw_sample
from training.sight_loss import SightLoss, _confused, _Names
from training.sights import HEADS, Look, Role

TOKENIZER = Path(__file__).parents[3] / "models/reader/heddle_reader/model/tokenizer.json"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(TOKENIZER))


def _drawn(seed, tokenizer, recipe=PHASES[-1].recipe):
    rng = random.Random(seed)
    fillings = Fillings(rng, Split.TRAIN)
    notes = draw_notes(recipe, fillings, rng)
    questions = ask(notes, PHASES[-1].recipe.weights, 12, fillings, rng)
    rest = [Turn(q.text, q.kind.value, q) for q in questions[1:]]
    return notes, questions, encode(answer_sample(notes, questions[0], rest), tokenizer)


def _text(tokenizer, row, places):
    return tokenizer.decode([row.ids[p] for p in places]).strip()


@pytest.mark.parametrize("seed", range(12))
def test_an_answers_tokens_are_shown_where_they_stand(tokenizer, seed):
    _, questions, row = _drawn(seed, tokenizer)
    shown = {look.at: look for look in row.looks if look.role is Role.SOURCE}
    for question, (_, first, end) in zip(questions, row.replies, strict=True):
        if question.kind is Kind.COMPARISON:
            continue
        look = shown[first - 1]
        if question.kind is Kind.NOT_IN_NOTES:
            assert look.to == ((0,),)
            continue
        for at in range(first - 1, end - 2):
            (places,) = shown[at].to
            assert {row.ids[p] for p in places} == {row.ids[at + 1]}
            assert all(p < row.replies[0][1] for p in places)


@pytest.mark.parametrize("seed", range(12))
def test_a_value_looks_at_the_name_of_its_subject(tokenizer, seed):
    notes, _, row = _drawn(seed, tokenizer, replace(PHASES[-1].recipe, town_share=0.0))
    names = [s.name.lower().removeprefix("the ") for s in notes.world]
    notes_end = row.replies[0][1] - 1
    owners = [look for look in row.looks if look.role is Role.OWNER and look.at < notes_end]
    assert owners
    for look in owners:
        for mention in zip(*look.to, strict=True):
            assert _text(tokenizer, row, mention).lower() == names[look.who]
            assert mention[-1] < look.at


def test_two_hops_show_the_bridge_and_comparisons_both_amounts(tokenizer):
    bridges = compared = 0
    for seed in range(20):
        _, questions, row = _drawn(seed, tokenizer)
        by_place = {(look.role, look.at): look for look in row.looks}
        for question, (_, first, _) in zip(questions, row.replies, strict=True):
            if question.kind is Kind.TWO_HOP:
                look = by_place[Role.BRIDGE, first - 1]
                value = question.steps[0][1].value
                assert _text(tokenizer, row, [g[0] for g in look.to]).lower() == value.lower()
                bridges += 1
            if question.kind is Kind.COMPARISON:
                look = by_place[Role.COMPARED, first - 1]
                values = "".join(fact.value for _, fact in question.steps).replace(" ", "")
                shown = _text(tokenizer, row, [g[0] for g in look.to]).replace(" ", "")
                assert shown == values
                compared += 1
    assert bridges > 10
    assert compared > 3


def test_a_summary_is_shown_where_its_answer_stands(tokenizer):
    rng = random.Random(4)
    recipe = replace(PHASES[-1].recipe, step_share=1.0)
    rows = [encode(draw_sample(recipe, rng), tokenizer) for _ in range(60)]
    summaries = 0
    for row in (r for r in rows if r.replies[0][0] == "compress"):
        _, start, end = row.replies[0]
        shown = [k for k in row.looks if k.role is Role.SOURCE and start <= k.at < end]
        for look in shown:
            (places,) = look.to
            assert {row.ids[p] for p in places} == {row.ids[look.at + 1]}
            assert max(places) < start
        summaries += len(shown) > 5  # the words of its question, and of the answer
    assert summaries > 10


def test_workflow_steps_that_show_no_notes_show_nothing(tokenizer):
    rng = random.Random(2)
    rows = [encode(draw_sample(PHASES[-1].recipe, rng), tokenizer) for _ in range(60)]
    plain = [row for row in rows if row.replies[0][0] in ("hyde", "decompose")]
    assert plain
    assert all(row.looks == [] for row in plain)


def _reader():
    return new_reader(reader_config(CPU_SHAPE, 900, 0, 1, 2), list(range(5, 25)), seed=3).eval()


def _missed(role, looks, attentions):
    """Minus the mean log share of the groups, times their number, over heads and looks."""
    missed = []
    for layer, head in HEADS[role]:
        for row, shown in enumerate(looks):
            for look in (x for x in shown if x.role is role):
                paid = attentions[layer][row, head, look.at]
                shares = torch.stack([paid[list(group)].sum() for group in look.to])
                missed.append(float(-(shares * len(shares)).log().mean()))
    return sum(missed) / len(missed)


def test_the_loss_is_that_of_the_attention_the_model_really_pays():
    reader = _reader()
    reader.set_attn_implementation("eager")
    rng = random.Random(4)
    ids = torch.tensor([[rng.randrange(5, 900) for _ in range(30)] for _ in range(2)])
    looks = [
        [Look(Role.SOURCE, 20, ((3, 9), (4, 10)))],
        [Look(Role.SOURCE, 12, ((5,),)), Look(Role.OWNER, 25, ((1,), (2,), (3,)))],
    ]
    sight = SightLoss(reader)
    with torch.no_grad():
        attentions = reader(ids, output_attentions=True).attentions
        loss, seen = sight(looks)
    wanted = sum(_missed(role, looks, attentions) for role in (Role.SOURCE, Role.OWNER))
    assert set(seen) == {Role.SOURCE, Role.OWNER}
    assert float(loss) == pytest.approx(wanted, rel=1e-3)


def test_a_name_is_told_apart_by_what_is_carried_for_its_own_subject():
    carried = torch.eye(4)[:2]  # of two subjects
    owner = _Names(carried, [0, 1])
    right = _confused(owner=owner, asked=_Names(carried, [0, 1]))
    wrong = _confused(owner=owner, asked=_Names(carried.flip(0), [0, 1]))
    unsure = _confused(owner=owner, asked=_Names(carried.sum(0, keepdim=True), [1]))
    assert float(right.max()) < 0.01
    assert float(wrong.min()) > 5
    assert float(unsure) == pytest.approx(math.log(2), abs=1e-4)


def test_a_question_about_nobody_in_the_notes_is_not_compared():
    owner = _Names(torch.eye(4)[:2], [0, 1])
    assert len(_confused(owner=owner, asked=_Names(torch.eye(4)[:2], [-1, 1]))) == 1


def test_the_loss_teaches_the_heads_it_names():
    reader = _reader()
    row = [Look(Role.BRIDGE, 9, ((4,),))]
    sight = SightLoss(reader)
    reader(torch.arange(5, 17)[None])
    loss, _ = sight([row])
    loss.backward()
    (layer, head), *_ = HEADS[Role.BRIDGE]
    gradient = reader.model.layers[layer].self_attn.q_proj.weight.grad
    dim = reader.model.layers[layer].self_attn.head_dim
    assert float(gradient[head * dim : (head + 1) * dim].abs().sum()) > 0
    assert float(gradient[: head * dim].abs().sum()) == 0


def test_rows_without_looks_cost_nothing():
    reader = _reader()
    sight = SightLoss(reader)
    reader(torch.arange(5, 17)[None])
    loss, seen = sight([[]])
    assert float(loss) == 0
    assert seen == {}
