"""That an index goes on with vectors of the embedder whose vectors it holds."""

from heddle.core.errors import ConfigError
from heddle.engines.vector.corpus.source import VectorSource


class EmbedderGuard:
    """Refuses a corpus that was made anew with another embedder under a running index.

    Args:
        source: the corpus; an index without vectors takes any embedder that the corpus has.
    """

    def __init__(self, source: VectorSource) -> None:
        self._source = source
        self._embedder = source.embedder

    def check(self, *, has_vectors: bool) -> None:
        """Accept the corpus's embedder, any as long as the index has no vectors.

        Raises: ConfigError: the vectors of two embedders would be mixed.
        """
        embedder = self._source.embedder
        if has_vectors and embedder != self._embedder:
            raise ConfigError(
                f"the corpus was made anew with another embedder ({embedder}, before "
                f"{self._embedder}); start the server again"
            )
        self._embedder = embedder
