"""Another lane's cores, on which this process may compute while that lane has nothing to do."""

from collections.abc import Callable
from typing import Final


class BorrowedCores:
    """Which they are, and whether they may be used now. None until begun."""

    def __init__(self) -> None:
        self.cpus: tuple[int, ...] = ()
        self._is_lent: Callable[[], bool] = _never

    def begin(self, is_lent: Callable[[], bool], cpus: tuple[int, ...]) -> None:
        """Borrow from now on.

        Args:
            is_lent: whether the cores may be used now; asked often, so it should take no time.
            cpus: the cores.
        """
        self._is_lent, self.cpus = is_lent, cpus

    def are_lent(self) -> bool:
        """Whether they may be used now."""
        return self._is_lent()


def _never() -> bool:
    return False


BORROWED_CORES: Final = BorrowedCores()
