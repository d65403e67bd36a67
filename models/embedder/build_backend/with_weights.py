"""The build backend: setuptools, once the weights are there. (PEP 517)

The weights are too large for the repository, so a build fetches and checks them first.
"""

from model_files import fetch_model
from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the wheel with the weights in it; returns its file name."""
    fetch_model()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Build the source distribution, whose own build fetches the weights."""
    return build_meta.build_sdist(sdist_directory, config_settings)
