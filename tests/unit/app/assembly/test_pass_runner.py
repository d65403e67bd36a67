"""The passes of a server know how it is configured."""

import pytest

from heddle.app.assembly.pass_runner import pass_runner
from heddle.app.server_config import ServerConfig
from heddle.core.call_order import FirstServed
from heddle.passes.split_substages import SplitSubstages


class Still:
    def now_s(self):
        return 0.0


@pytest.mark.parametrize(
    "settings", [{}, {"ageing": 0.5}, {"batching": "blind"}, {"batching": "topology_aware"}]
)
def test_searches_are_replayed_in_the_order_they_are_served_in(settings):
    config = ServerConfig.of(None, "corpus", settings)
    passes = pass_runner(config, Still()).cycle_passes
    (split,) = (one for one in passes if isinstance(one, SplitSubstages))
    assert split.order == config.call_order
    assert (split.order.first is FirstServed.SHORTEST) == ("batching" not in settings)
