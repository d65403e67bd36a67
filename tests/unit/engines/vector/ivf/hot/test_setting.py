import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.ivf.hot.setting import HotSettings, hot_settings


@pytest.mark.parametrize(
    ("setting", "has_gpu", "meant"),
    [
        ("auto", True, HotSettings(0.2, "cuda")),
        ("auto", False, None),
        ("off", True, None),
        ("35%", False, HotSettings(0.35, "cpu")),
        ("100%", True, HotSettings(1.0, "cuda")),
    ],
)
def test_a_setting_says_how_much_is_kept_and_where(setting, has_gpu, meant):
    assert hot_settings(setting, has_gpu=has_gpu) == meant


@pytest.mark.parametrize("setting", ["", "on", "20", "0%", "101%", "1.5%", "-5%"])
def test_anything_else_is_refused(setting):
    with pytest.raises(ConfigError, match="hot_clusters: need auto, off or a share such as 20%"):
        hot_settings(setting, has_gpu=True)
