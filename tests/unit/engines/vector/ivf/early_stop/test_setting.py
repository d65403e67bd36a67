import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.ivf.early_stop.setting import target_recall


def test_a_mode_is_exact_or_a_target():
    assert target_recall("exact") is None
    assert target_recall("speculative") is None
    assert target_recall("target:0.95") == 0.95


@pytest.mark.parametrize(
    "text", ["", "target", "target:", "target:1", "target:0", "target:nan", "fast"]
)
def test_anything_else_is_refused_with_what_to_write(text):
    with pytest.raises(ConfigError, match=r"target:0\.95"):
        target_recall(text)
