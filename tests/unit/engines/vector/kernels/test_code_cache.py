"""Kernels are compiled where Numba by itself finds no folder to write to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.kernels.code_cache import first_own

COMPILE = """
import heddle.engines.vector.graph.prune
from heddle.engines.vector.kernels.scan_kernels import rows_to_compare
import numpy as np
labels, out = np.array([4, -1, 6]), np.zeros(3, np.int64)
print(rows_to_compare(labels, np.zeros(0, np.uint8), 0, 3, out), out[:2])
"""


def compiled(**environment):
    """Compile a kernel where the source's folder and the user's can't be written to."""
    environment = {
        **os.environ,
        **environment,
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        "NUMBA_CACHE_DIR": "",
    }
    ran = [sys.executable, "-c", COMPILE]
    done = subprocess.run(ran, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "(2, 3) [0 2]\n", done.stderr


@pytest.mark.slow
def test_code_is_kept_in_heddles_cache(tmp_path):
    compiled(HEDDLE_CACHE=str(tmp_path))
    assert list((tmp_path / "numba").rglob("scan_kernels.rows_to_compare*.nbc"))
    assert (tmp_path / "numba").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_without_a_cache_it_is_kept_among_temporary_files(tmp_path):
    compiled(HEDDLE_CACHE="/proc/none", TMPDIR=str(tmp_path))
    assert list(tmp_path.rglob("scan_kernels.rows_to_compare*.nbc"))


def test_no_folder_is_taken_that_others_can_change(tmp_path):
    others, link, own = tmp_path / "others", tmp_path / "link", tmp_path / "own"
    link.symlink_to(tmp_path)
    assert first_own((Path("/proc/none"), link, own)) == own
    assert own.stat().st_mode & 0o777 == 0o700
    others.mkdir(mode=0o777)
    others.chmod(0o777)
    assert first_own((others,)).stat().st_mode & 0o777 == 0o700
    with pytest.raises(ConfigError, match="set HEDDLE_CACHE"):
        first_own((Path("/proc/none"), link))
