"""How hypothesis draws here: a batch from a seed, without a database and without shrinking."""

from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, settings

BATCH: Final = 20
DRAWN: Final = settings(
    max_examples=BATCH,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
)
