"""That a corpus still has all commits which a running index has followed."""

from heddle.core.errors import ConfigError


class RevisionGuard:
    """Refuses a corpus that went back under a running index, as where its database was restored.

    Its next commits get the revisions and chunk ids of those that are lost. So the index would
    neither hear of them nor know that its vectors are those of other chunks.

    `problem` says that it went back, until the lane is started again; "" = it didn't.
    """

    def __init__(self) -> None:
        self.problem = ""

    def check(self, newest: int, covered: int) -> None:
        """Accept the newest revision, unless the index covers one, now or before, that is newer.

        Raises: ConfigError: the corpus went back.
        """
        if newest < covered and not self.problem:
            self.problem = (
                f"the corpus went back from revision {covered} to {newest}, as after a restore; "
                "start the server again"
            )
        if self.problem:
            raise ConfigError(self.problem)
