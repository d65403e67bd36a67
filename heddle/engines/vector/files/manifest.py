"""What an index file says about itself: enough to refuse it, never enough to trust it blindly."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError

FOLDER: Final = "index"  # in the corpus directory
MANIFEST: Final = "manifest.json"
GRAPH: Final = "graph"


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """Describes one index file.

    `revision` is the corpus revision that the file covers, `sha256` the file's hex digest,
    `embedder` names what made the vectors. `kind` and `mode` are values of IndexKind and
    SearchMode. `refine` and its digest name the file of its RefineStore, "" where it has none.
    `file` is "" where the corpus was empty: then only the mode says something. `origin` is the
    `VectorSource.origin` that the vectors were read from.
    """

    file: str
    revision: int
    sha256: str
    nlist: int
    count: int
    dims: int
    embedder: str
    kind: str
    mode: str
    refine: str
    refine_sha256: str
    origin: str = ""  # files of older versions have none

    def to_json(self) -> str:
        """Return the manifest as it is stored."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "IndexManifest":
        """Read a manifest back.

        Raises:
            InputError: it is no manifest, or a field is missing or of another type.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the index manifest is no JSON: {error}") from error
        if not isinstance(values, dict):
            raise InputError("the index manifest is no JSON object")
        for field in fields(cls):
            value = values.setdefault(field.name, field.default)
            if not isinstance(value, field.type):  # type: ignore[arg-type]
                raise InputError(
                    f"the index manifest has no valid {field.name!r}: "
                    "another version of Heddle wrote it, or it is damaged"
                )
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def read_manifest(directory: Path) -> IndexManifest:
    """Return what the index of a corpus directory says about itself.

    Raises:
        FileNotFoundError: there is no index yet.
        InputError: it is no manifest.
    """
    try:
        text = (directory / FOLDER / MANIFEST).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the index manifest is no text: {error}") from error
    return IndexManifest.from_json(text)


def graph_path(directory: Path) -> Path:
    """Return where the graph of a corpus directory lies; where it does, searches use it."""
    return directory / FOLDER / GRAPH
