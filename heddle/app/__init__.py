"""The one place where configuration becomes clocks, engines, lanes and schedulers."""

from heddle.app.application import App
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig

__all__ = ["App", "Server", "ServerConfig"]
