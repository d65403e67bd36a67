import pytest

from benchmarks.virtual.recorded_requests import passage_lengths, recorded_requests
from heddle.core.errors import InputError


def prompt(node, *between, written=4):
    segments = [["text", 3], *between, ["text", 2]]
    return {"node": node, "segments": segments, "written": written}


def embedded(rows):
    return {"node": "retrieve", "rows": rows, "tokens": 20 * rows}


def searched(rows):
    return {"node": "retrieve", "rows": rows}


PASSAGES = [["chunk", size] for size in (150, 90, 120, 80, 110)]
ANSWER = (["text", 8], *PASSAGES, ["text", 2], ["text", 17])
DECOMPOSE = (["text", 20], ["text", 17])
MULTISTEP = {
    "workflow": "multistep",
    "calls": [
        prompt("decompose", *DECOMPOSE, written=21),
        embedded(1),
        searched(1),
        embedded(2),
        searched(2),
        prompt("answer", ["text", 8], *PASSAGES, ["chunk", 60], ["text", 2], ["text", 17]),
    ],
}
IRG = {
    "workflow": "irg",
    "calls": [searched(1), prompt("answer", *ANSWER), searched(1), prompt("answer", *ANSWER)],
}


def read(*requests):
    return recorded_requests({"requests": requests}, "here")


def test_texts_and_values_of_a_prompt_take_turns() -> None:
    (one,) = read(MULTISTEP)
    assert one.prompts[0].pieces == (("text", 20), ("slot", 17))
    roles = [role for role, _ in one.prompts[1].pieces]
    assert roles == ["text", *6 * ["chunk"], "text", "slot"]
    assert (one.prompts[0].around, one.prompts[0].written) == (5, 21)
    assert one.question_tokens == 17


def test_rows_that_were_sent_one_by_one_are_one_retrieval() -> None:
    (one,) = read(MULTISTEP)
    assert one.queries == (3,)


def test_each_turn_of_a_loop_is_a_retrieval_of_its_own() -> None:
    (one,) = read(IRG)
    assert one.queries == (1, 1)


def test_queries_that_find_the_same_passages_differ_in_none() -> None:
    (one,) = read(IRG)
    assert one.other_share() == 0


def test_queries_that_find_more_differ_in_some() -> None:
    (one,) = read(MULTISTEP)  # 6 passages of 3 queries: 5 and 3 times a share of 5
    assert one.other_share() == 5


def test_passages_are_gathered_in_order_of_size() -> None:
    assert passage_lengths(read(IRG))[:4] == (80, 80, 90, 90)


def test_a_record_of_something_else_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="here: the recorded requests can't be read"):
        recorded_requests({"requests": [{"calls": []}]}, "here")
