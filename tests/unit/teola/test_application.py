"""An APP is a template before it is served: it compiles once it has one."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.teola.application import APP
from heddle.teola.engine import REGISTERED, Engine
from heddle.workflow.component import Component


@pytest.fixture(autouse=True)
def registry():
    REGISTERED.clear()
    yield REGISTERED
    REGISTERED.clear()


def test_it_takes_the_engines_that_are_registered_when_it_begins():
    Engine("Shout", str.upper)
    app = APP.init()
    Engine("Whisper", str.lower)
    assert list(app.engines) == ["Shout"]
    app.update_template([Component("Shout")])
    assert list(app.compile().nodes) == ["shout"]
    with pytest.raises(WorkflowError, match="no engine 'Whisper'"):
        app.update_template([Component("Whisper")])
    app.close()


def test_it_needs_a_template():
    with pytest.raises(WorkflowError, match="call update_template first"):
        APP.init().compile()
