import subprocess
import sys

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.build import VectorSettings


@pytest.mark.parametrize(
    "bad",
    [
        {"nprobe": 0},
        {"slots": 0},
        {"threads": -1},
        {"lists_per_step": 0},
        {"substage_budget_s": 0.0},
        {"substage_budget_s": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused_by_name(tmp_path, bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        VectorSettings(tmp_path, **bad)


def test_what_decides_loads_no_faiss():
    code = (
        "import sys, heddle.engines.vector.engine, heddle.engines.vector.build;"
        "assert not {'faiss', 'torch', 'sqlite3'} & set(sys.modules), 'too much is loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
