"""Parsers of JSON that take no answer that `max_tokens` has cut; those of LangChain close it."""

from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import Generation


class UncutJson(JsonOutputParser):
    """Reads JSON as a dict."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return what an answer holds; `partial` = as far as it is there.

        Raises:
            OutputParserException: it is cut, or no JSON.
        """
        _check_whole(result, partial=partial)
        return super().parse_result(result, partial=partial)


class UncutObject(PydanticOutputParser):  # type: ignore[type-arg, unused-ignore]
    """Reads JSON as an object of a class."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return what an answer holds; `partial` = as far as it is there.

        Raises:
            OutputParserException: it is cut, or nothing of the class.
        """
        _check_whole(result, partial=partial)
        return super().parse_result(result, partial=partial)


def _check_whole(result: list[Generation], *, partial: bool) -> None:
    metadata = getattr(getattr(result[0], "message", None), "response_metadata", {})
    if not partial and metadata.get("finish_reason") == "length":
        words = "the answer is cut: raise max_tokens"
        raise OutputParserException(words, llm_output=result[0].text)
