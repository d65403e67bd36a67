"""A constraint that can't be kept here is refused before anything starts."""

from types import SimpleNamespace
from typing import Any

import pytest

from heddle.app.requests.constraint_checks import ConstraintChecks
from heddle.core.errors import ConfigError
from heddle.core.prompts.constraint import Constraint
from heddle.engines.llm.constrained import installed
from heddle.workflow.ragraph import RAGraph


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    graph = RAGraph("forms")
    graph.add_generation("answer", "{query}", output="answer", constraint=Constraint.choice(["a"]))
    plan: Any = SimpleNamespace(remote=SimpleNamespace(generator=None), generator=None)
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"^node 'answer': .*pip install 'heddle\[structured\]'"):
        ConstraintChecks(plan).check(graph.compile())
