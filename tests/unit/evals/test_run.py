import pytest

from heddle.core.errors import Busy, ConfigError, EngineError, InputError
from heddle.evals.context import Case, given_passages
from heddle.evals.run import run_cases
from tests.unit.evals.answering import AnsweringServer, question

WORKFLOW = given_passages().compile()
CASES = tuple(Case(question(f"q{i}", f"ask {i}"), ()) for i in range(20))


def echo(inputs):
    return inputs["query"].removeprefix("ask ")


def refused(error):
    error.at_submission = True
    return error


def run(server, **how):
    seen = []
    outcomes = run_cases(server, WORKFLOW, CASES, on_outcome=seen.append, **how)
    assert list(outcomes) == seen
    return outcomes


@pytest.mark.parametrize(("room", "in_flight_max"), [(1000, 32), (1000, 3), (4, 32), (1, 1)])
def test_every_case_is_answered_in_order_whatever_the_room(room, in_flight_max):
    server = AnsweringServer(echo, room)
    outcomes = run(server, in_flight_max=in_flight_max)
    assert [outcome.answer.text for outcome in outcomes] == [str(i) for i in range(20)]
    assert server.most_open == min(room, in_flight_max, len(CASES))
    assert [inputs for _, inputs in server.submitted] == [case.inputs for case in CASES]


def test_a_failure_is_an_outcome_and_the_others_go_on():
    lost = EngineError("lane lost", engine="llm", request_ids=(3,))
    long = refused(InputError("query is too long"))
    outcomes = run(AnsweringServer(lambda i: {"3": lost, "7": long}.get(echo(i), "fine")))
    assert [o.case.question.id for o in outcomes if o.answer is None] == ["q3", "q7"]
    assert outcomes[3].error == str(lost)
    assert outcomes[7].error == "query is too long"


def test_what_concerns_every_question_stops_the_run():
    impossible = refused(ConfigError("no engine here does that"))
    server = AnsweringServer(lambda i: impossible if echo(i) == "5" else "fine")
    with pytest.raises(ConfigError):
        run(server)
    assert server.cancelled == 5


def test_a_server_that_is_full_of_others_is_not_waited_for():
    with pytest.raises(Busy):
        run(AnsweringServer(echo, room=0))


def test_an_interrupt_cancels_what_is_in_flight():
    server = AnsweringServer(lambda i: KeyboardInterrupt() if echo(i) == "2" else "fine")
    with pytest.raises(KeyboardInterrupt):
        run(server)
    assert server.cancelled == 17  # 0 and 1 had ended, and 2 was the one being waited for
