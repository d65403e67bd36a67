import pytest

from heddle.evals.judging.reply import (
    STATEMENT_CHARS_MAX,
    STATEMENTS_MAX,
    MalformedReply,
    read_statements,
    read_verdicts,
)


def test_lists_are_read_also_in_a_fence():
    assert read_statements(' ["Lisbon is\\n the capital."] ') == ("Lisbon is the capital.",)
    assert read_statements("[]") == ()
    assert read_verdicts("```json\n[1, 0]\n```", 2) == (True, False)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Lisbon is the capital.",
        'Sure: ["Lisbon is the capital."]',
        '["Lisbon is the capital."',
        '{"statements": []}',
        '[""]',
        "[1]",
        "[" * 100_000,
        f'["{"x" * (STATEMENT_CHARS_MAX + 1)}"]',
        str(["x"] * (STATEMENTS_MAX + 1)).replace("'", '"'),
    ],
)
def test_other_statements_are_malformed(reply):
    with pytest.raises(MalformedReply):
        read_statements(reply)


@pytest.mark.parametrize(
    "reply",
    ["[1]", "[1, 0, 1]", "[true, false]", "[1.0, 0]", "[1, 2]", '["1", "0"]', "[1, null]", "1, 0"],
)
def test_other_verdicts_are_malformed(reply):
    with pytest.raises(MalformedReply):
        read_verdicts(reply, 2)
