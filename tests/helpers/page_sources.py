"""The page's sources, and the hash of them that its build keeps (web/vite.config.ts)."""

import hashlib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
WEB: Final = ROOT / "web"
SITE: Final = ROOT / "heddle/server/page/site"
BUILT_FROM: Final = (
    "index.html",
    "package-lock.json",
    "public",
    "src",
    "tsconfig.json",
    "vite.config.ts",
)


def sources_hash(web: Path = WEB) -> str:
    """Return the hash of what the page is built from, with its names."""
    names: list[str] = []
    for part in BUILT_FROM:
        below = [web / part] if (web / part).is_file() else (web / part).rglob("*")
        names += [path.relative_to(web).as_posix() for path in below if path.is_file()]
    found = hashlib.sha256()
    for name in sorted(names):
        found.update(name.encode() + b"\0" + (web / name).read_bytes() + b"\0")
    return found.hexdigest()
