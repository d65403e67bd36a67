import sys

import pytest

from heddle.core.errors import InputError
from heddle.evals.manuals_scores import cpu_seconds, manuals_scores
from heddle.evals.metrics.quotes import QuotedAnswer, Reply
from heddle.evals.question import EvalQuestion

ASKED = EvalQuestion("q", "Which port?", ("8000",))
OPEN = EvalQuestion("u", "Which colour?", ())
RIGHT, WRONG = QuotedAnswer("It is 8000.", "8000"), QuotedAnswer("It is red.", "red")
BUSY = "import time\nwhile time.process_time() < 0.2: pass\n"


def test_each_share_is_of_the_questions_that_it_is_about():
    replies = [
        Reply(ASKED, [RIGHT], ["It is 8000."]),
        Reply(ASKED, [WRONG, RIGHT], ["It is 8000."]),
        Reply(ASKED, [], ["It is 8000."]),
        Reply(ASKED, [WRONG], []),
        Reply(OPEN, [WRONG], []),
        Reply(OPEN, [], []),
    ]
    found = manuals_scores(replies, seed=0)
    assert {name: (one.mean, one.count) for name, one in found.items()} == {
        "right_quotes": (0.25, 4),
        "right_quotes_of_3": (0.5, 4),
        "right_spans": (0.25, 4),
        "in_passages": (0.75, 4),
        "declined": (0.25, 4),
        "invented": (0.5, 2),
    }


def test_a_share_of_no_questions_is_left_out():
    assert set(manuals_scores([Reply(OPEN, [], [])], seed=0)) == {"invented"}


def test_the_processes_that_a_command_waits_for_count():
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    assert cpu_seconds([sys.executable, "-c", child]) >= 0.2


def test_a_command_that_fails_is_named():
    with pytest.raises(InputError, match=r"sys.exit\(3\) failed with exit code 3"):
        cpu_seconds([sys.executable, "-c", "import sys; sys.exit(3)"])
