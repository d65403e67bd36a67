from typing import Any

import pytest

from benchmarks import workflows
from benchmarks.coscheduling import steady_load
from heddle.cli.bench import OWN_OPTIONS
from heddle.core.errors import InputError


def test_an_option_names_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(name: str) -> workflows.Measured:
        def measure(quick: bool, seed: int) -> dict[str, Any]:
            return {"name": name, "seed": seed}

        return measure

    monkeypatch.setattr(workflows, "MODES", {name: named(name) for name in workflows.MODES})
    monkeypatch.setattr(steady_load, "measured", named("steady"))
    assert workflows.run(True, 3) == {"name": "steady", "seed": 3}
    for name in workflows.MODES:
        assert workflows.run(True, 0, **{name: True})["name"] == name
        assert name in OWN_OPTIONS


def test_two_options_are_refused() -> None:
    with pytest.raises(InputError, match="give one"):
        workflows.run(True, 0, teola=True, offline=True)
    with pytest.raises(InputError, match="give one"):
        workflows.run(True, 0, teola=True, host="ray", compare="process")


@pytest.mark.parametrize("given", [{"host": "ray"}, {"compare": "process"}])
def test_a_host_is_compared_with_another(given: dict[str, str]) -> None:
    with pytest.raises(InputError, match="give both, or neither"):
        workflows.run(True, 0, **given)
