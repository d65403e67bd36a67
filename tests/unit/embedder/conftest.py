"""Makes the build backend of the embedder's package importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "models" / "embedder" / "build_backend"))
