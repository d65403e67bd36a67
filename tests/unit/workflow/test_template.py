"""Templates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import WorkflowError
from heddle.workflow.template import Slot, parse_template


def test_parts_in_order() -> None:
    template = parse_template("Answer {input} from {docs}.", where="here")
    assert template.parts == ("Answer ", Slot("query"), " from ", Slot("docs"), ".")
    assert template.slots == ("query", "docs")


@given(st.text(min_size=1))
def test_escaped_text_is_itself(text: str) -> None:
    template = parse_template(text.replace("{", "{{").replace("}", "}}"), where="here")
    assert "".join(str(part) for part in template.parts) == text


@pytest.mark.parametrize("bad", ["{", "a } b", "{a.b}", "{0}", "{a!r}", "{a:>3}", "{}", ""])
def test_bad_templates_say_where(bad: str) -> None:
    with pytest.raises(WorkflowError, match="here"):
        parse_template(bad, where="here")
