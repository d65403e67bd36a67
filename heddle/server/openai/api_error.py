"""A refusal that has a status, and OpenAI's words for it."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException


class ApiError(HTTPException):
    """A refusal with a status of its own.

    Args:
        status: of HTTP.
        message: for people: what is wrong, and the fix.
        param: the field of the request; empty = none.
        code: OpenAI's word for the kind of error; empty = the one that goes with the status.
        headers: of the reply.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str = "",
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.param = param
        self.code = code
