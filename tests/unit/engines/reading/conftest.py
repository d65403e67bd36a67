"""Makes the training code importable, whose evaluation the engine has to equal."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "models" / "extractor"))
