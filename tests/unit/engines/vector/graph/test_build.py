"""Settings, and a lane built from a file."""

import pytest

from heddle.core.errors import ConfigError, InputError
from heddle.engines.vector.graph.build import GraphSettings, build_engine
from heddle.engines.vector.graph.graph_file import write_graph


def test_an_engine_serves_a_file(graph, tmp_path):
    write_graph(tmp_path / "graph", graph.index)
    engine = build_engine("graph", 3, GraphSettings(tmp_path / "graph", slots=2))
    engine.apply(graph.tools.search(1, graph.vectors[:1], topk=1))
    (event,) = graph.tools.drain(engine)
    assert event.result.distances[0, 0] < 1e-3


def test_a_bad_file_is_refused(tmp_path):
    (tmp_path / "graph").write_bytes(b"nothing")
    with pytest.raises(InputError):
        build_engine("graph", 0, GraphSettings(tmp_path / "graph"))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"topm": 0}, "topm"),
        ({"topm": 5000}, "topm"),
        ({"slots": 0}, "slots"),
        ({"substage_budget_s": 0.0}, "substage_budget_s"),
    ],
)
def test_a_setting_out_of_range_is_named(tmp_path, values, named):
    with pytest.raises(ConfigError, match=named):
        GraphSettings(tmp_path, **values)
