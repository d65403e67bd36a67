"""From an extractor's or a reranker's name to what its directory says of it."""

from pathlib import Path

from heddle.app.models.model_source import model_directory
from heddle.engines.reading.installed import EXTRACT, extractor_directory, installed_extractors
from heddle.engines.reading.reading_directory import ReadingDirectory


def open_extractor(name: str | Path) -> ReadingDirectory:
    """Find a model that reads; its `kinds` say for which work.

    Args:
        name: an installed extractor ("extract"), or what `model_directory` takes: a directory or
            owner/name on the model hub.

    Raises:
        InputError: there is no such model.
        ConfigError: the extractor isn't installed, or the reading engine can't run the model.
    """
    if str(name) in {EXTRACT, *installed_extractors()} and not Path(name).is_dir():
        return ReadingDirectory.open(extractor_directory(str(name)))
    return ReadingDirectory.open(model_directory(name))
