"""What an index file says about itself: enough to refuse it, never enough to trust it blindly."""

import json
from dataclasses import asdict, dataclass, fields

from heddle.core.errors import InputError


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """Describes one index file.

    `revision` is the corpus revision that the file covers, `sha256` the file's hex digest,
    `embedder` names what made the vectors.
    """

    file: str
    revision: int
    sha256: str
    nlist: int
    count: int
    dims: int
    embedder: str

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
        except ValueError as error:
            raise InputError(f"the index manifest is no JSON: {error}") from error
        if not isinstance(values, dict):
            raise InputError("the index manifest is no JSON object")
        for field in fields(cls):
            if not isinstance(values.get(field.name), field.type):  # type: ignore[arg-type]
                raise InputError(f"the index manifest has no valid {field.name!r}")
        return cls(**{field.name: values[field.name] for field in fields(cls)})
