"""Settings that an embedder on another server can't follow."""

import pytest

from heddle.app.remote.refusals import check_remote_models
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError

REMOTE = "http://127.0.0.1:9/v1#bge"


@pytest.mark.parametrize(
    ("setting", "value"), [("long_texts", "window"), ("embedding_admission", "windve")]
)
def test_what_only_lanes_of_heddles_own_can_do_is_refused(setting: str, value: str) -> None:
    check_remote_models(ServerConfig.of(None, "corpus", {"embedder": REMOTE}))
    check_remote_models(ServerConfig.of(None, "corpus", {setting: value}))
    config = ServerConfig.of(None, "corpus", {"embedder": REMOTE, setting: value})
    with pytest.raises(ConfigError, match=f"--{setting.replace('_', '-')}.*: an embedder that"):
        check_remote_models(config)
